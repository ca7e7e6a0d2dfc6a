CREATE TABLE region (code char(2) PRIMARY KEY, parent char(2) REFERENCES region);
CREATE TABLE tenant (id serial PRIMARY KEY, slug varchar(8) NOT NULL UNIQUE,
  opened date NOT NULL, closed date, CHECK (closed >= opened));
CREATE TABLE person (tenant_id int REFERENCES tenant, id int, email text NOT NULL,
  boss int, region char(2) REFERENCES region, ref uuid NOT NULL UNIQUE, score numeric(6,2) UNIQUE,
  PRIMARY KEY (tenant_id, id), UNIQUE (tenant_id, email),
  FOREIGN KEY (tenant_id, boss) REFERENCES person (tenant_id, id));
CREATE TABLE passport (tenant_id int, person_id int, number text NOT NULL UNIQUE,
  PRIMARY KEY (tenant_id, person_id),
  FOREIGN KEY (tenant_id, person_id) REFERENCES person (tenant_id, id));
CREATE TABLE team (tenant_id int NOT NULL REFERENCES tenant, id bigint GENERATED ALWAYS AS IDENTITY
  PRIMARY KEY, lead int, UNIQUE (tenant_id, id),
  FOREIGN KEY (tenant_id, lead) REFERENCES person (tenant_id, id) MATCH SIMPLE);
CREATE TABLE member (tenant_id int NOT NULL, team_id bigint NOT NULL, person_id int NOT NULL,
  since timestamptz(0) NOT NULL DEFAULT now(), PRIMARY KEY (team_id, person_id),
  FOREIGN KEY (tenant_id, team_id) REFERENCES team (tenant_id, id),
  FOREIGN KEY (tenant_id, person_id) REFERENCES person (tenant_id, id));
CREATE TABLE visit (tenant_id int, person_id int, day date, place boolean,
  half int GENERATED ALWAYS AS (person_id / 2) STORED, PRIMARY KEY (tenant_id, person_id, day),
  FOREIGN KEY (tenant_id, person_id) REFERENCES person ON DELETE CASCADE);
CREATE TABLE login ("Name" varchar(12) NOT NULL, mail text, seen timestamp, live boolean);
CREATE UNIQUE INDEX ON login (lower("Name"));
CREATE UNIQUE INDEX ON login (lower(mail));
CREATE UNIQUE INDEX ON login (seen) WHERE live;
CREATE INDEX ON login (upper(mail));
CREATE TABLE a (id int PRIMARY KEY, b int NOT NULL);
CREATE TABLE b (id int PRIMARY KEY, a int NOT NULL REFERENCES a, time_of interval UNIQUE);
ALTER TABLE a ADD FOREIGN KEY (b) REFERENCES b;
