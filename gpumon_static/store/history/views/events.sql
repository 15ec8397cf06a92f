-- What happened, as the feed reports it: hosts that went down or came back, GPUs that broke or became free.
SELECT to_timestamp(t) AS happened_at, type, host, try_cast(document AS JSON) ->> '$.group' AS host_group,
    try_cast(try_cast(document AS JSON) ->> '$.since' AS TIMESTAMPTZ) AS since,
    try_cast(try_cast(document AS JSON) ->> '$.lasted_s' AS DOUBLE) AS lasted_s,
    try_cast(document AS JSON) ->> '$.status' AS status, try_cast(document AS JSON) ->> '$.error' AS error,
    try_cast(document AS JSON) ->> '$.job' AS job, try_cast(document AS JSON) ->> '$.user' AS "user",
    try_cast(document AS JSON) ->> '$.gpus' AS gpus, id
FROM {events}
