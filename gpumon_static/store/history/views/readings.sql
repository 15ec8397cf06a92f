-- Every row as the files have it: one for each process, for each GPU or slice without one, and for each host
-- that did not answer. `seconds` is the time until the host was read again, the same in all rows of a reading.
SELECT * FROM {rows} WHERE fetched_at < to_timestamp({until})
