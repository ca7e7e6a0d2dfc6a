CREATE TABLE holder (id int PRIMARY KEY, label text NOT NULL UNIQUE, reach varchar(40),
  account text, fixed text NOT NULL, born date, size int NOT NULL, note text, shown text,
  mine text, must text CHECK (must IS NOT NULL));
CREATE TABLE genre (code char(2) PRIMARY KEY, name text);
CREATE TABLE style (code char(2) PRIMARY KEY, name text);
CREATE TABLE thing (id int PRIMARY KEY, genre char(2) REFERENCES genre, style char(2)
  REFERENCES style);
SET allow_system_table_mods = on;
