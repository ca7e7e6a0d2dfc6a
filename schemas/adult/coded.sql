-- UCI Adult, integer-coded. Its domains are in coded.toml.
--
-- In the folder that holds adult_coded.csv (header line, 14 columns):
--   psql DATABASE -f coded.sql
\set ON_ERROR_STOP on
BEGIN;
CREATE TABLE adult_coded (
    age integer NOT NULL,
    workclass integer NOT NULL,
    fnlwgt integer NOT NULL,
    "education-num" integer NOT NULL,
    "marital-status" integer NOT NULL,
    occupation integer NOT NULL,
    relationship integer NOT NULL,
    race integer NOT NULL,
    sex integer NOT NULL,
    "capital-gain" integer NOT NULL,
    "capital-loss" integer NOT NULL,
    "hours-per-week" integer NOT NULL,
    "native-country" integer NOT NULL,
    "income>50K" integer NOT NULL
);
\copy adult_coded FROM 'adult_coded.csv' WITH (FORMAT csv, HEADER true)
COMMIT;
ANALYZE adult_coded;
