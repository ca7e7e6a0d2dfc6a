CREATE TABLE order_status (code char(1) PRIMARY KEY, title text NOT NULL);
CREATE TABLE item (id int PRIMARY KEY, status char(1) NOT NULL REFERENCES order_status, cost int);
