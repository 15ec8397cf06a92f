-- Hosts with more names in these rows than a host has: users, models, cards.
SELECT host FROM {rows} GROUP BY host
HAVING count(DISTINCT "user") > $users OR count(DISTINCT slurm_user) > $users
    OR count(DISTINCT gpu_name) > $models OR count(DISTINCT card) > $cards
