-- A shop of about 300,000 rows. Everything is older than a day, so that a window holds only what is new.
CREATE TYPE order_status AS ENUM ('placed', 'paid', 'shipped', 'returned');

CREATE TABLE customers (
    id          uuid PRIMARY KEY,
    name        text NOT NULL,
    tags        text[] NOT NULL,
    preferences jsonb NOT NULL,
    last_login  inet,
    created_at  timestamptz NOT NULL,
    updated_at  timestamptz NOT NULL DEFAULT now()
);
INSERT INTO customers
SELECT md5('customer ' || n)::uuid,
       'Customer ' || n,
       ARRAY['tier ' || n % 3, 'city ' || n % 100],
       jsonb_build_object('newsletter', n % 2 = 0, 'language', (ARRAY['en', 'de', 'fr'])[1 + n % 3]),
       ('10.0.' || n % 250 || '.' || n % 199)::inet,
       now() - interval '2 years' + n * interval '30 minutes',
       now() - interval '1 day' - n * interval '1 minute'
FROM generate_series(1, 20000) AS n;

CREATE TABLE products (
    sku   varchar(20) PRIMARY KEY,
    name  text NOT NULL,
    price numeric(10, 2) NOT NULL,
    sizes numeric(6, 2)[] NOT NULL,
    valid daterange NOT NULL
);
INSERT INTO products
SELECT 'sku-' || to_char(n, 'FM00000'),
       'Product ' || n,
       (n % 9000 + 99) / 100.0,
       ARRAY[n % 40 + 0.5, n % 30 + 1.25],
       daterange(date '2024-01-01' + n % 300, NULL)
FROM generate_series(1, 2000) AS n;

CREATE TABLE orders (
    id          bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    customer_id uuid NOT NULL REFERENCES customers,
    status      order_status NOT NULL,
    total       numeric(12, 2) NOT NULL,
    note        text,
    updated_at  timestamptz NOT NULL DEFAULT now()
);
INSERT INTO orders (customer_id, status, total, note, updated_at)
SELECT md5('customer ' || 1 + n % 20000)::uuid,
       (ARRAY['placed', 'paid', 'shipped', 'returned']::order_status[])[1 + n % 4],
       (n % 100000) / 100.0,
       CASE WHEN n % 10 = 0 THEN 'Grüße, schnell bitte 🚚' END,
       now() - interval '1 day' - n * interval '1 minute'
FROM generate_series(1, 60000) AS n;

CREATE TABLE order_items (
    order_id bigint,
    line     smallint,
    sku      varchar(20) NOT NULL,
    quantity integer NOT NULL,
    price    numeric(10, 2) NOT NULL,
    PRIMARY KEY (order_id, line)
);
INSERT INTO order_items
SELECT 1 + n / 2, 1 + n % 2, 'sku-' || to_char(1 + n % 2000, 'FM00000'), 1 + n % 5, (n % 9000 + 99) / 100.0
FROM generate_series(0, 119999) AS n;

CREATE TABLE events (
    id      bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at      timestamptz NOT NULL,
    kind    text NOT NULL,
    payload jsonb NOT NULL
);
INSERT INTO events (at, kind, payload)
SELECT now() - interval '1 day' - (100000 - n) * interval '10 seconds',
       (ARRAY['view', 'search', 'cart', 'buy'])[1 + n % 4],
       jsonb_build_object('page', n % 500, 'path', ARRAY['a', 'b'], 'ms', n % 1700)
FROM generate_series(1, 100000) AS n;

CREATE TABLE visits (
    id   bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at   timestamptz NOT NULL,
    page text NOT NULL
);
INSERT INTO visits (at, page)
SELECT timestamptz '2026-03-20 00:00Z' + n * interval '1 minute', '/' || n % 50
FROM generate_series(1, 1000) AS n;

ANALYZE;
