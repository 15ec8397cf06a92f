-- A number between 0 and 1 that is the same for the same key.
CREATE OR REPLACE TEMP MACRO phase(k) AS (hash(k) % 1000003) / 1000003.0;
-- A mean as a whole number: rounded up or down so that many of them have the right mean.
CREATE OR REPLACE TEMP MACRO whole(mean, k) AS floor(mean + phase(k))::BIGINT;
CREATE OR REPLACE TEMP MACRO state_name(n) AS ['free', 'busy', 'held', 'unknown', 'down'][n + 1]
