-- IMDB-shaped database: the six tables of JOB-light, with the columns that its queries read.
--
-- `python generate.py DSN --scale 0.1` makes tables, rows and keys; this file alone makes them empty:
--   psql DATABASE -f imdb.sql
-- Companies, people, keywords and codes are plain numbers, since their own tables are not among
-- the six.
\set ON_ERROR_STOP on
BEGIN;
CREATE TABLE title (
    id integer NOT NULL,
    kind_id smallint NOT NULL,
    production_year smallint
);
CREATE TABLE movie_companies (
    id integer NOT NULL,
    movie_id integer NOT NULL,
    company_id integer NOT NULL,
    company_type_id smallint NOT NULL
);
CREATE TABLE cast_info (
    id integer NOT NULL,
    movie_id integer NOT NULL,
    person_id integer NOT NULL,
    role_id smallint NOT NULL
);
CREATE TABLE movie_info (
    id integer NOT NULL,
    movie_id integer NOT NULL,
    info_type_id smallint NOT NULL
);
CREATE TABLE movie_info_idx (
    id integer NOT NULL,
    movie_id integer NOT NULL,
    info_type_id smallint NOT NULL
);
CREATE TABLE movie_keyword (
    id integer NOT NULL,
    movie_id integer NOT NULL,
    keyword_id integer NOT NULL
);
-- rows
ALTER TABLE title ADD PRIMARY KEY (id);
ALTER TABLE movie_companies ADD PRIMARY KEY (id);
ALTER TABLE cast_info ADD PRIMARY KEY (id);
ALTER TABLE movie_info ADD PRIMARY KEY (id);
ALTER TABLE movie_info_idx ADD PRIMARY KEY (id);
ALTER TABLE movie_keyword ADD PRIMARY KEY (id);
ALTER TABLE movie_companies ADD FOREIGN KEY (movie_id) REFERENCES title (id);
ALTER TABLE cast_info ADD FOREIGN KEY (movie_id) REFERENCES title (id);
ALTER TABLE movie_info ADD FOREIGN KEY (movie_id) REFERENCES title (id);
ALTER TABLE movie_info_idx ADD FOREIGN KEY (movie_id) REFERENCES title (id);
ALTER TABLE movie_keyword ADD FOREIGN KEY (movie_id) REFERENCES title (id);
CREATE INDEX ON title (kind_id);
CREATE INDEX ON movie_companies (movie_id);
CREATE INDEX ON movie_companies (company_id);
CREATE INDEX ON cast_info (movie_id);
CREATE INDEX ON cast_info (person_id);
CREATE INDEX ON movie_info (movie_id);
CREATE INDEX ON movie_info (info_type_id);
CREATE INDEX ON movie_info_idx (movie_id);
CREATE INDEX ON movie_keyword (movie_id);
CREATE INDEX ON movie_keyword (keyword_id);
COMMIT;
