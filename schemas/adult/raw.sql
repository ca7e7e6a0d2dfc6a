-- UCI Adult as published: strings, with the two files adult.data and adult.test joined, `?` read as
-- NULL and the full stop at the end of the second file's income labels taken off.
--
-- In the folder that holds census.csv (header line, empty fields for NULL, a running id first):
--   psql DATABASE -f raw.sql
\set ON_ERROR_STOP on
BEGIN;
CREATE TABLE census (
    id integer PRIMARY KEY,
    age integer,
    workclass text,
    fnlwgt integer,
    education text,
    education_num integer,
    marital_status text,
    occupation text,
    relationship text,
    race text,
    sex text,
    capital_gain integer,
    capital_loss integer,
    hours_per_week integer,
    native_country text,
    income text
);
\copy census FROM 'census.csv' WITH (FORMAT csv, HEADER true, NULL '')
COMMIT;
ANALYZE census;
