-- Stack Exchange "stats" (Cross Validated), five of the eight tables of the STATS benchmark.
--
-- In the folder that holds the five CSV files (header line, empty fields for NULL):
--   psql DATABASE -f stats5.sql
\set ON_ERROR_STOP on
BEGIN;
CREATE TABLE users (
    id integer PRIMARY KEY,
    reputation integer,
    creationdate timestamp,
    views integer,
    upvotes integer,
    downvotes integer
);
CREATE TABLE posts (
    id integer PRIMARY KEY,
    posttypeid smallint,
    creationdate timestamp,
    score integer,
    viewcount integer,
    owneruserid integer,
    answercount integer,
    commentcount integer,
    favoritecount integer,
    lasteditoruserid integer
);
CREATE TABLE badges (
    id integer PRIMARY KEY,
    userid integer,
    date timestamp
);
CREATE TABLE postlinks (
    id integer PRIMARY KEY,
    creationdate timestamp,
    postid integer,
    relatedpostid integer,
    linktypeid smallint
);
CREATE TABLE tags (
    id integer PRIMARY KEY,
    count integer,
    excerptpostid integer
);
\copy users FROM 'users.csv' WITH (FORMAT csv, HEADER true, NULL '')
\copy posts FROM 'posts.csv' WITH (FORMAT csv, HEADER true, NULL '')
\copy badges FROM 'badges.csv' WITH (FORMAT csv, HEADER true, NULL '')
\copy postlinks FROM 'postLinks.csv' WITH (FORMAT csv, HEADER true, NULL '')
\copy tags FROM 'tags.csv' WITH (FORMAT csv, HEADER true, NULL '')
ALTER TABLE posts ADD FOREIGN KEY (owneruserid) REFERENCES users (id);
ALTER TABLE posts ADD FOREIGN KEY (lasteditoruserid) REFERENCES users (id);
ALTER TABLE badges ADD FOREIGN KEY (userid) REFERENCES users (id);
ALTER TABLE postlinks ADD FOREIGN KEY (postid) REFERENCES posts (id);
ALTER TABLE postlinks ADD FOREIGN KEY (relatedpostid) REFERENCES posts (id);
ALTER TABLE tags ADD FOREIGN KEY (excerptpostid) REFERENCES posts (id);
CREATE INDEX ON posts (owneruserid);
CREATE INDEX ON posts (lasteditoruserid);
CREATE INDEX ON badges (userid);
CREATE INDEX ON postlinks (postid);
CREATE INDEX ON postlinks (relatedpostid);
CREATE INDEX ON tags (excerptpostid);
COMMIT;
ANALYZE;
