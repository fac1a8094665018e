-- The first week of a shop with two branches, each with a database of its own.
CREATE DATABASE shop_1 CHARACTER SET utf8mb4;
CREATE DATABASE shop_2 CHARACTER SET utf8mb4;
CREATE TABLE shop_1.customers (id BIGINT PRIMARY KEY, name VARCHAR(80) NOT NULL, email VARCHAR(120));
CREATE TABLE shop_1.orders_1 (id BIGINT PRIMARY KEY, customer BIGINT NOT NULL, total DECIMAL(10,2) NOT NULL);
CREATE TABLE shop_1.sessions (id BIGINT PRIMARY KEY, agent VARCHAR(200));
CREATE TABLE shop_2.orders_2 (id BIGINT PRIMARY KEY, customer BIGINT NOT NULL, total DECIMAL(10,2) NOT NULL);
INSERT INTO shop_1.customers VALUES (1, 'Anna', 'anna@example.org'), (2, 'Ben', 'ben@example.org'), (3, 'Chloé', NULL);
INSERT INTO shop_1.sessions VALUES (1, 'Mozilla/5.0');
INSERT INTO shop_1.orders_1 VALUES (1, 1, 10.50), (2, 2, 99.99);
INSERT INTO shop_2.orders_2 VALUES (1, 2, 7.25), (2, 1, 3.00);
UPDATE shop_1.orders_1 SET total = 12.00 WHERE id = 1;
DELETE FROM shop_1.sessions WHERE id = 1;
