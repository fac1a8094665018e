-- The third week: totals get four digits behind the point, in both branches.
ALTER TABLE shop_1.orders_1 MODIFY total DECIMAL(15,4) NOT NULL;
ALTER TABLE shop_2.orders_2 MODIFY total DECIMAL(15,4) NOT NULL;
INSERT INTO shop_1.orders_1 VALUES (3, 3, 12345678901.2345);
UPDATE shop_2.orders_2 SET total = 8.0025 WHERE id = 3;
INSERT INTO shop_1.customers VALUES (4, 'Dai', 'dai@example.org');
