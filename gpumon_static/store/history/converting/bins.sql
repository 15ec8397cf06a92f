-- The hours as they are, and what a day has more than its hours: those are gone, or were never there. It is spread
-- evenly over the hours before the first one that counts; its maxima stand in the first of them.
WITH hours AS (SELECT * FROM {table}_hours WHERE "hour" >= {first} AND {of_hours}),
summed AS (SELECT "hour" // 24 AS "day", {keys}, {added} FROM hours GROUP BY "hour" // 24, {keys}),
rest AS (
    SELECT d."day", {of_keys}, {rest}{maxes} FROM {table}_days AS d LEFT JOIN summed AS s USING ("day", {keys}) WHERE {when}
),
spread AS (
    SELECT *, CASE WHEN {first} > "day" * 24 THEN least(24, {first} - "day" * 24) ELSE 24 END AS n
    FROM rest WHERE {some} > 0.01
)
SELECT "hour", {keys}, {columns} FROM hours
UNION ALL
SELECT "day" * 24 + k AS "hour", {keys}, {parts} FROM spread, LATERAL (SELECT unnest(range(n)) AS k)
