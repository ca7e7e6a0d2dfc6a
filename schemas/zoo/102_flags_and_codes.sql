-- Flags and small codes as integers, owned by so few that noise hides their ranges; a default tells an order of magnitude.
CREATE TABLE orgs (id int PRIMARY KEY, name text, enabled integer NOT NULL, plan_code smallint, sort_order integer);
CREATE TABLE users (id int PRIMARY KEY, org_id int REFERENCES orgs, is_admin integer NOT NULL DEFAULT 0, active smallint NOT NULL, status integer, login_count int, priority int, "hasPhoto" integer, theme int, month_no int, quota int DEFAULT 5000);
CREATE TABLE logs (id int PRIMARY KEY, user_id int NOT NULL REFERENCES users, deleted_flag integer, kind smallint, attempts int, http_status int);
INSERT INTO orgs SELECT i, 'o'||i, (i%4>0)::int, i%3, i FROM generate_series(1,12) i;
INSERT INTO users SELECT i, 1+i%12, (i%10=0)::int, (i%5>0)::int, i%4, (i*i)%30, i%3, (i%2), i%3, 1+i%12, 5000+(i%2)*1000 FROM generate_series(1,40) i;
INSERT INTO logs SELECT i, 1+i%40, (i%7=0)::int, i%5, i%3, 200 + (i%5/4)*204 FROM generate_series(1,120) i;
