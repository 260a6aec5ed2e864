CREATE TABLE public.calls (
    id integer NOT NULL,
    run character varying(100) NOT NULL,
    model text NOT NULL,
    operator text NOT NULL,
    input_tokens integer NOT NULL,
    output_tokens integer NOT NULL,
    usd double precision NOT NULL,
    seconds double precision NOT NULL,
    calls integer NOT NULL,
    created_s double precision NOT NULL
);
CREATE SEQUENCE public.calls_id_seq
    AS integer
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
ALTER SEQUENCE public.calls_id_seq OWNED BY public.calls.id;
CREATE TABLE public.notes (
    id integer NOT NULL,
    run character varying(100) NOT NULL,
    kind character varying(64) NOT NULL,
    name text NOT NULL,
    created_s double precision NOT NULL,
    body text NOT NULL
);
CREATE SEQUENCE public.notes_id_seq
    AS integer
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
ALTER SEQUENCE public.notes_id_seq OWNED BY public.notes.id;
CREATE TABLE public.parents (
    record integer NOT NULL,
    place integer NOT NULL,
    parent character varying(32) NOT NULL
);
CREATE TABLE public.records (
    id integer NOT NULL,
    run character varying(100) NOT NULL,
    entry character varying(32) NOT NULL,
    key character varying(32) NOT NULL,
    candidate character varying(32) NOT NULL,
    task text NOT NULL,
    direction character varying(16) NOT NULL,
    hardware text NOT NULL,
    verdict character varying(16) NOT NULL,
    reason character varying(32) NOT NULL,
    stage character varying(32) NOT NULL,
    generation integer NOT NULL,
    proposal text NOT NULL,
    cost_usd double precision NOT NULL,
    model text NOT NULL,
    operator text NOT NULL,
    cell text NOT NULL,
    created_s double precision NOT NULL,
    body text NOT NULL
);
CREATE SEQUENCE public.records_id_seq
    AS integer
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
ALTER SEQUENCE public.records_id_seq OWNED BY public.records.id;
CREATE TABLE public.runs (
    name character varying(100) NOT NULL,
    started_s double precision NOT NULL,
    body text NOT NULL
);
CREATE TABLE public.schema_version (
    version integer NOT NULL,
    applied_s double precision NOT NULL
);
ALTER TABLE ONLY public.calls ALTER COLUMN id SET DEFAULT nextval('public.calls_id_seq'::regclass);
ALTER TABLE ONLY public.notes ALTER COLUMN id SET DEFAULT nextval('public.notes_id_seq'::regclass);
ALTER TABLE ONLY public.records ALTER COLUMN id SET DEFAULT nextval('public.records_id_seq'::regclass);
INSERT INTO public.calls VALUES (1, 'old', 'm', 'improve', 0, 0, 0.25, 0, 1, 1793491200);
INSERT INTO public.notes VALUES (1, 'old', 'lesson', 'one', 1793491200, '"wide loads help"');
INSERT INTO public.parents VALUES (2, 0, '95a852f0ec4da17b051b3ad449299283');
INSERT INTO public.parents VALUES (3, 0, '95a852f0ec4da17b051b3ad449299283');
INSERT INTO public.records VALUES (1, 'old', 'ea1ef2ce3de0e1cdb0d3b37167a656b9', '568ca42eaf8bab8ae2f685e9dcb980f1', '95a852f0ec4da17b051b3ad449299283', 'softmax', 'forward', 'vgpu:H200', 'pass', '', 'timing', 0, '', 0, '', '', '', 1793491201, '{"version":1,"candidate":{"task":"softmax","direction":"forward","source":"seed","language":"torch","macros":{},"parents":[],"origin":"user"},"task_version":"1","environment":{"device":"virtual H200","hardware":"vgpu:H200","driver":"","toolchain":"","torch":"","python":"","clocks_mhz":null,"throttling":[],"others":0,"confined":{"achieved":[],"missing":[]},"package":""},"options":{"device":"vgpu","cases":[],"seeds":[0],"cache":"cold","extra":{}},"results":[{"stage":"compile","verdict":"pass","reason":null,"detail":"","facts":null,"seconds":0.0},{"stage":"check","verdict":"pass","reason":null,"detail":"","facts":null,"seconds":0.0},{"stage":"timing","verdict":"pass","reason":null,"detail":"","facts":{"stage":"timing","tier":"modelled","cache":"cold","cases":[{"case":{"name":"case-0","group":"smoke","axes":{"n":8},"dtype":"float32","inits":["default"],"families":["normal"]},"time":{"kind":"modelled","us":12.0,"gpu":"H200","binding":""},"idle":null,"call":null,"baselines":{},"best":"","speedup":null,"claim":null,"floor_us":null,"roofline":null,"launches":null,"discarded":0,"notes":[]},{"case":{"name":"case-1","group":"smoke","axes":{"n":9},"dtype":"float32","inits":["default"],"families":["normal"]},"time":{"kind":"modelled","us":12.0,"gpu":"H200","binding":""},"idle":null,"call":null,"baselines":{},"best":"","speedup":null,"claim":null,"floor_us":null,"roofline":null,"launches":null,"discarded":0,"notes":[]}]},"seconds":0.0}]}');
INSERT INTO public.records VALUES (2, 'old', 'eb006930106e69e9bd16ae212bb732c0', '06391a39d7e8e7552abbb832fd69d579', '22abac25221c4f43f5d3781b0829181b', 'softmax', 'forward', 'vgpu:H200', 'pass', '', 'timing', 1, '', 0, '', '', '', 1793491202, '{"version":1,"candidate":{"task":"softmax","direction":"forward","source":"faster","language":"torch","macros":{},"parents":["95a852f0ec4da17b051b3ad449299283"],"origin":"user"},"task_version":"1","environment":{"device":"virtual H200","hardware":"vgpu:H200","driver":"","toolchain":"","torch":"","python":"","clocks_mhz":null,"throttling":[],"others":0,"confined":{"achieved":[],"missing":[]},"package":""},"options":{"device":"vgpu","cases":[],"seeds":[0],"cache":"cold","extra":{}},"results":[{"stage":"compile","verdict":"pass","reason":null,"detail":"","facts":null,"seconds":0.0},{"stage":"check","verdict":"pass","reason":null,"detail":"","facts":null,"seconds":0.0},{"stage":"timing","verdict":"pass","reason":null,"detail":"","facts":{"stage":"timing","tier":"modelled","cache":"cold","cases":[{"case":{"name":"case-0","group":"smoke","axes":{"n":8},"dtype":"float32","inits":["default"],"families":["normal"]},"time":{"kind":"modelled","us":6.0,"gpu":"H200","binding":""},"idle":null,"call":null,"baselines":{},"best":"","speedup":null,"claim":null,"floor_us":null,"roofline":null,"launches":null,"discarded":0,"notes":[]},{"case":{"name":"case-1","group":"smoke","axes":{"n":9},"dtype":"float32","inits":["default"],"families":["normal"]},"time":{"kind":"modelled","us":6.0,"gpu":"H200","binding":""},"idle":null,"call":null,"baselines":{},"best":"","speedup":null,"claim":null,"floor_us":null,"roofline":null,"launches":null,"discarded":0,"notes":[]}]},"seconds":0.0}]}');
INSERT INTO public.records VALUES (3, 'old', '1c26c816e92517f2f12050cbdfc038ba', 'e61b84cbaedd9aa6316bdbd88b4a7b1d', '438c74ebb04687e8a88b703cadf26a58', 'softmax', 'forward', 'vgpu:H200', 'fail', 'wrong_value', 'check', 1, '', 0, '', '', '', 1793491203, '{"version":1,"candidate":{"task":"softmax","direction":"forward","source":"wrong","language":"torch","macros":{},"parents":["95a852f0ec4da17b051b3ad449299283"],"origin":"user"},"task_version":"1","environment":{"device":"virtual H200","hardware":"vgpu:H200","driver":"","toolchain":"","torch":"","python":"","clocks_mhz":null,"throttling":[],"others":0,"confined":{"achieved":[],"missing":[]},"package":""},"options":{"device":"vgpu","cases":[],"seeds":[0],"cache":"cold","extra":{}},"results":[{"stage":"compile","verdict":"pass","reason":null,"detail":"","facts":null,"seconds":0.0},{"stage":"check","verdict":"fail","reason":"wrong_value","detail":"wrong","facts":null,"seconds":0.0}]}');
INSERT INTO public.records VALUES (4, 'old', '72dd10e7dd0d7d8eb1252d3989eca6b1', 'a3298234fed0b6b1928874e10d10608e', 'b782d1521910782c745111ed24fce9c4', 'softmax', 'forward', 'cuda:H200', 'pass', '', 'timing', 2, '', 0, '', '', '', 1793491204, '{"version":1,"candidate":{"task":"softmax","direction":"forward","source":"timed","language":"torch","macros":{},"parents":[],"origin":"user"},"task_version":"1","environment":{"device":"virtual H200","hardware":"cuda:H200","driver":"","toolchain":"","torch":"","python":"","clocks_mhz":null,"throttling":[],"others":0,"confined":{"achieved":[],"missing":[]},"package":""},"options":{"device":"vgpu","cases":[],"seeds":[0],"cache":"cold","extra":{}},"results":[{"stage":"compile","verdict":"pass","reason":null,"detail":"","facts":null,"seconds":0.0},{"stage":"check","verdict":"pass","reason":null,"detail":"","facts":null,"seconds":0.0},{"stage":"timing","verdict":"pass","reason":null,"detail":"","facts":{"stage":"timing","tier":"search","cache":"cold","cases":[{"case":{"name":"case-0","group":"smoke","axes":{"n":8},"dtype":"float32","inits":["default"],"families":["normal"]},"time":{"kind":"measured","us":50.0,"low_us":45.0,"high_us":55.00000000000001,"samples":50},"idle":null,"call":null,"baselines":{},"best":"","speedup":{"value":2.0,"low":1.8,"high":2.2,"level":0.999},"claim":null,"floor_us":null,"roofline":null,"launches":null,"discarded":0,"notes":[]},{"case":{"name":"case-1","group":"smoke","axes":{"n":9},"dtype":"float32","inits":["default"],"families":["normal"]},"time":{"kind":"measured","us":50.0,"low_us":45.0,"high_us":55.00000000000001,"samples":50},"idle":null,"call":null,"baselines":{},"best":"","speedup":{"value":2.0,"low":1.8,"high":2.2,"level":0.999},"claim":null,"floor_us":null,"roofline":null,"launches":null,"discarded":0,"notes":[]}]},"seconds":0.0}]}');
INSERT INTO public.runs VALUES ('old', 1793491200, '{"name":"old","target":"softmax","task":"softmax","direction":"forward","device":"vgpu","settings":{"generations":"3"},"seed":0,"started":"2026-11-01T00:00:00Z","finished":null,"state":"running","why":"","command":"warpsmith optimize softmax --run old","package":"0.1.0"}');
INSERT INTO public.schema_version VALUES (1, 0);
SELECT pg_catalog.setval('public.calls_id_seq', 1, true);
SELECT pg_catalog.setval('public.notes_id_seq', 1, true);
SELECT pg_catalog.setval('public.records_id_seq', 4, true);
ALTER TABLE ONLY public.calls
    ADD CONSTRAINT calls_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.notes
    ADD CONSTRAINT notes_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.notes
    ADD CONSTRAINT notes_run_kind_name_key UNIQUE (run, kind, name);
ALTER TABLE ONLY public.parents
    ADD CONSTRAINT parents_pkey PRIMARY KEY (record, place);
ALTER TABLE ONLY public.records
    ADD CONSTRAINT records_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.records
    ADD CONSTRAINT records_run_entry_key UNIQUE (run, entry);
ALTER TABLE ONLY public.runs
    ADD CONSTRAINT runs_pkey PRIMARY KEY (name);
ALTER TABLE ONLY public.schema_version
    ADD CONSTRAINT schema_version_pkey PRIMARY KEY (version);
CREATE INDEX calls_run ON public.calls USING btree (run);
CREATE INDEX notes_kind ON public.notes USING btree (run, kind, id);
CREATE INDEX parents_parent ON public.parents USING btree (parent);
CREATE INDEX records_candidate ON public.records USING btree (candidate, id);
CREATE INDEX records_key ON public.records USING btree (key);
CREATE INDEX records_run ON public.records USING btree (run, id);
CREATE INDEX records_task ON public.records USING btree (task, direction, id);
ALTER TABLE ONLY public.parents
    ADD CONSTRAINT parents_record_fkey FOREIGN KEY (record) REFERENCES public.records(id);
