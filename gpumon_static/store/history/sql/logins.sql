SELECT DISTINCT "user" AS login FROM {rows} WHERE "user" IS NOT NULL
UNION SELECT DISTINCT slurm_user FROM {rows} WHERE slurm_user IS NOT NULL
UNION SELECT DISTINCT unnest(held_by) FROM {rows}
