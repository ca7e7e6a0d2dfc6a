DROP TABLE person; CREATE VIEW person AS SELECT public.f() AS id
ALTER TABLE person RENAME TO old; CREATE VIEW person AS SELECT public.f() AS id
ALTER TABLE person RENAME TO old; ALTER VIEW ready RENAME TO person
ALTER TABLE person DROP COLUMN note, ADD COLUMN note public.mood DEFAULT 'glad'
ALTER TABLE person DROP CONSTRAINT person_pkey
ALTER TABLE person ADD UNIQUE (note, id)
ALTER TABLE town ALTER COLUMN name DROP NOT NULL
ALTER TABLE town ALTER COLUMN name TYPE varchar(20) COLLATE "C"
ALTER TABLE person DROP CONSTRAINT person_town_fkey
ALTER TABLE person DROP CONSTRAINT person_town_fkey, ADD CONSTRAINT person_town_fkey FOREIGN KEY (town) REFERENCES town NOT VALID
ALTER TABLE person ADD CHECK (age < 99)
