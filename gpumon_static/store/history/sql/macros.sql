-- A text that a spreadsheet would run as a formula has an apostrophe before it in the CSV: see store/cells.py.
CREATE OR REPLACE TEMP MACRO cell_text(cell) AS
    CASE WHEN contains(cell, '''') THEN regexp_replace(cell, '(^|;[\s"]*)''(''*[=+\-@\t\r])', '\1\2', 'g') ELSE cell END;
-- Letters and digits of a UUID, without its vendor's prefix.
CREATE OR REPLACE TEMP MACRO uuid_digits(uuid) AS
    regexp_replace(lower(regexp_replace(uuid, '^(GPU|MIG)-', '')), '[^0-9a-z]', '', 'g');
-- Whether a UUID is a stand-in, as of a virtual GPU: one digit all over, or none.
CREATE OR REPLACE TEMP MACRO is_masked(uuid) AS
    length(uuid) >= 16 AND uuid_digits(uuid) = repeat(uuid_digits(uuid)[1], length(uuid_digits(uuid)));
-- The time that a reading or a run stands for, given the next one and the newest run of all; none where the next
-- one may still come in time.
CREATE OR REPLACE TEMP MACRO stands_for(t, following, interval_s, newest) AS
    CASE WHEN following - t <= 1.5 * interval_s THEN following - t
        WHEN following IS NOT NULL OR newest - t > 1.5 * interval_s THEN interval_s END
;
-- The same for one that stood for some time in its own history.
CREATE OR REPLACE TEMP MACRO joined_for(gap, before, interval_s, age) AS
    CASE WHEN gap <= greatest(coalesce(before, 0), 1.5 * interval_s) THEN gap
        WHEN coalesce(before, 0) = 0 AND (gap IS NOT NULL OR age > 1.5 * interval_s) THEN interval_s ELSE before END
