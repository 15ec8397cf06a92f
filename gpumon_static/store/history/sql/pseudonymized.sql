-- The same rows with pseudonyms, without what may name a person in other words.
WITH names AS (SELECT map_from_entries(list((login, pseudonym))) AS of FROM pseudonyms)
SELECT r.* REPLACE (of["user"] AS "user", of[slurm_user] AS slurm_user, NULL::VARCHAR AS command_line,
    NULL::VARCHAR AS slurm_job_name, NULL::VARCHAR AS error, NULL::BIGINT AS uid,
    list_transform(held_by, lambda login: coalesce(of[login], '')) AS held_by)
FROM {rows} AS r, names
