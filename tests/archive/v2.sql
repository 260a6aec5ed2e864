BEGIN TRANSACTION;
CREATE TABLE calls (
	id INTEGER NOT NULL, 
	run VARCHAR(100) NOT NULL, 
	model TEXT NOT NULL, 
	operator TEXT NOT NULL, 
	input_tokens INTEGER NOT NULL, 
	output_tokens INTEGER NOT NULL, 
	usd FLOAT NOT NULL, 
	seconds FLOAT NOT NULL, 
	calls INTEGER NOT NULL, 
	created_s FLOAT NOT NULL, 
	PRIMARY KEY (id)
);
INSERT INTO "calls" VALUES(1,'old','m','improve',0,0,0.25,0.0,1,1793491200.0);
CREATE TABLE notes (
	id INTEGER NOT NULL, 
	run VARCHAR(100) NOT NULL, 
	kind VARCHAR(64) NOT NULL, 
	name TEXT NOT NULL, 
	created_s FLOAT NOT NULL, 
	body TEXT NOT NULL, 
	PRIMARY KEY (id), 
	UNIQUE (run, kind, name)
);
INSERT INTO "notes" VALUES(1,'old','lesson','one',1793491200.0,'"wide loads help"');
CREATE TABLE parents (
	record INTEGER NOT NULL, 
	place INTEGER NOT NULL, 
	parent VARCHAR(32) NOT NULL, 
	PRIMARY KEY (record, place), 
	FOREIGN KEY(record) REFERENCES records (id)
);
INSERT INTO "parents" VALUES(2,0,'95a852f0ec4da17b051b3ad449299283');
INSERT INTO "parents" VALUES(3,0,'95a852f0ec4da17b051b3ad449299283');
CREATE TABLE records (
	id INTEGER NOT NULL, 
	run VARCHAR(100) NOT NULL, 
	entry VARCHAR(32) NOT NULL, 
	"key" VARCHAR(32) NOT NULL, 
	candidate VARCHAR(32) NOT NULL, 
	task TEXT NOT NULL, 
	direction VARCHAR(16) NOT NULL, 
	hardware TEXT NOT NULL, 
	verdict VARCHAR(16) NOT NULL, 
	reason VARCHAR(32) NOT NULL, 
	stage VARCHAR(32) NOT NULL, 
	generation INTEGER NOT NULL, 
	proposal TEXT NOT NULL, 
	cost_usd FLOAT NOT NULL, 
	model TEXT NOT NULL, 
	operator TEXT NOT NULL, 
	cell TEXT NOT NULL, 
	created_s FLOAT NOT NULL, 
	body TEXT NOT NULL, 
	PRIMARY KEY (id), 
	UNIQUE (run, entry)
);
INSERT INTO "records" VALUES(1,'old','ea1ef2ce3de0e1cdb0d3b37167a656b9','568ca42eaf8bab8ae2f685e9dcb980f1','95a852f0ec4da17b051b3ad449299283','softmax','forward','vgpu:H200','pass','','timing',0,'',0.0,'','','',1793491201.0,'{"version":1,"candidate":{"task":"softmax","direction":"forward","source":"seed","language":"torch","macros":{},"parents":[],"origin":"user"},"task_version":"1","environment":{"device":"virtual H200","hardware":"vgpu:H200","driver":"","toolchain":"","torch":"","python":"","clocks_mhz":null,"throttling":[],"others":0,"confined":{"achieved":[],"missing":[]},"package":""},"options":{"device":"vgpu","cases":[],"seeds":[0],"cache":"cold","extra":{}},"results":[{"stage":"compile","verdict":"pass","reason":null,"detail":"","facts":null,"seconds":0.0},{"stage":"check","verdict":"pass","reason":null,"detail":"","facts":null,"seconds":0.0},{"stage":"timing","verdict":"pass","reason":null,"detail":"","facts":{"stage":"timing","tier":"modelled","cache":"cold","cases":[{"case":{"name":"case-0","group":"smoke","axes":{"n":8},"dtype":"float32","inits":["default"],"families":["normal"]},"time":{"kind":"modelled","us":12.0,"gpu":"H200","binding":""},"idle":null,"call":null,"baselines":{},"best":"","speedup":null,"claim":null,"floor_us":null,"roofline":null,"launches":null,"discarded":0,"notes":[]},{"case":{"name":"case-1","group":"smoke","axes":{"n":9},"dtype":"float32","inits":["default"],"families":["normal"]},"time":{"kind":"modelled","us":12.0,"gpu":"H200","binding":""},"idle":null,"call":null,"baselines":{},"best":"","speedup":null,"claim":null,"floor_us":null,"roofline":null,"launches":null,"discarded":0,"notes":[]}]},"seconds":0.0}]}');
INSERT INTO "records" VALUES(2,'old','eb006930106e69e9bd16ae212bb732c0','06391a39d7e8e7552abbb832fd69d579','22abac25221c4f43f5d3781b0829181b','softmax','forward','vgpu:H200','pass','','timing',1,'',0.0,'','','',1793491202.0,'{"version":1,"candidate":{"task":"softmax","direction":"forward","source":"faster","language":"torch","macros":{},"parents":["95a852f0ec4da17b051b3ad449299283"],"origin":"user"},"task_version":"1","environment":{"device":"virtual H200","hardware":"vgpu:H200","driver":"","toolchain":"","torch":"","python":"","clocks_mhz":null,"throttling":[],"others":0,"confined":{"achieved":[],"missing":[]},"package":""},"options":{"device":"vgpu","cases":[],"seeds":[0],"cache":"cold","extra":{}},"results":[{"stage":"compile","verdict":"pass","reason":null,"detail":"","facts":null,"seconds":0.0},{"stage":"check","verdict":"pass","reason":null,"detail":"","facts":null,"seconds":0.0},{"stage":"timing","verdict":"pass","reason":null,"detail":"","facts":{"stage":"timing","tier":"modelled","cache":"cold","cases":[{"case":{"name":"case-0","group":"smoke","axes":{"n":8},"dtype":"float32","inits":["default"],"families":["normal"]},"time":{"kind":"modelled","us":6.0,"gpu":"H200","binding":""},"idle":null,"call":null,"baselines":{},"best":"","speedup":null,"claim":null,"floor_us":null,"roofline":null,"launches":null,"discarded":0,"notes":[]},{"case":{"name":"case-1","group":"smoke","axes":{"n":9},"dtype":"float32","inits":["default"],"families":["normal"]},"time":{"kind":"modelled","us":6.0,"gpu":"H200","binding":""},"idle":null,"call":null,"baselines":{},"best":"","speedup":null,"claim":null,"floor_us":null,"roofline":null,"launches":null,"discarded":0,"notes":[]}]},"seconds":0.0}]}');
INSERT INTO "records" VALUES(3,'old','1c26c816e92517f2f12050cbdfc038ba','e61b84cbaedd9aa6316bdbd88b4a7b1d','438c74ebb04687e8a88b703cadf26a58','softmax','forward','vgpu:H200','fail','wrong_value','check',1,'',0.0,'','','',1793491203.0,'{"version":1,"candidate":{"task":"softmax","direction":"forward","source":"wrong","language":"torch","macros":{},"parents":["95a852f0ec4da17b051b3ad449299283"],"origin":"user"},"task_version":"1","environment":{"device":"virtual H200","hardware":"vgpu:H200","driver":"","toolchain":"","torch":"","python":"","clocks_mhz":null,"throttling":[],"others":0,"confined":{"achieved":[],"missing":[]},"package":""},"options":{"device":"vgpu","cases":[],"seeds":[0],"cache":"cold","extra":{}},"results":[{"stage":"compile","verdict":"pass","reason":null,"detail":"","facts":null,"seconds":0.0},{"stage":"check","verdict":"fail","reason":"wrong_value","detail":"wrong","facts":null,"seconds":0.0}]}');
INSERT INTO "records" VALUES(4,'old','72dd10e7dd0d7d8eb1252d3989eca6b1','a3298234fed0b6b1928874e10d10608e','b782d1521910782c745111ed24fce9c4','softmax','forward','cuda:H200','pass','','timing',2,'',0.0,'','','',1793491204.0,'{"version":1,"candidate":{"task":"softmax","direction":"forward","source":"timed","language":"torch","macros":{},"parents":[],"origin":"user"},"task_version":"1","environment":{"device":"virtual H200","hardware":"cuda:H200","driver":"","toolchain":"","torch":"","python":"","clocks_mhz":null,"throttling":[],"others":0,"confined":{"achieved":[],"missing":[]},"package":""},"options":{"device":"vgpu","cases":[],"seeds":[0],"cache":"cold","extra":{}},"results":[{"stage":"compile","verdict":"pass","reason":null,"detail":"","facts":null,"seconds":0.0},{"stage":"check","verdict":"pass","reason":null,"detail":"","facts":null,"seconds":0.0},{"stage":"timing","verdict":"pass","reason":null,"detail":"","facts":{"stage":"timing","tier":"search","cache":"cold","cases":[{"case":{"name":"case-0","group":"smoke","axes":{"n":8},"dtype":"float32","inits":["default"],"families":["normal"]},"time":{"kind":"measured","us":50.0,"low_us":45.0,"high_us":55.00000000000001,"samples":50},"idle":null,"call":null,"baselines":{},"best":"","speedup":{"value":2.0,"low":1.8,"high":2.2,"level":0.999},"claim":null,"floor_us":null,"roofline":null,"launches":null,"discarded":0,"notes":[]},{"case":{"name":"case-1","group":"smoke","axes":{"n":9},"dtype":"float32","inits":["default"],"families":["normal"]},"time":{"kind":"measured","us":50.0,"low_us":45.0,"high_us":55.00000000000001,"samples":50},"idle":null,"call":null,"baselines":{},"best":"","speedup":{"value":2.0,"low":1.8,"high":2.2,"level":0.999},"claim":null,"floor_us":null,"roofline":null,"launches":null,"discarded":0,"notes":[]}]},"seconds":0.0}]}');
CREATE TABLE runs (
	name VARCHAR(100) NOT NULL, 
	started_s FLOAT NOT NULL, 
	body TEXT NOT NULL, 
	PRIMARY KEY (name)
);
INSERT INTO "runs" VALUES('old',1793491200.0,'{"name":"old","target":"softmax","task":"softmax","direction":"forward","device":"vgpu","settings":{"generations":"3"},"seed":0,"started":"2026-11-01T00:00:00Z","finished":null,"state":"running","why":"","command":"warpsmith optimize softmax --run old","package":"0.1.0"}');
CREATE TABLE schema_version (
	version INTEGER NOT NULL, 
	applied_s FLOAT NOT NULL, 
	PRIMARY KEY (version)
);
INSERT INTO "schema_version" VALUES(1,0.0);
INSERT INTO "schema_version" VALUES(2,0.0);
CREATE TABLE scores (
	record INTEGER NOT NULL, 
	kind VARCHAR(16) NOT NULL, 
	value FLOAT NOT NULL, 
	low FLOAT, 
	high FLOAT, 
	cases INTEGER NOT NULL, 
	basis VARCHAR(32) NOT NULL, 
	PRIMARY KEY (record), 
	FOREIGN KEY(record) REFERENCES records (id)
);
INSERT INTO "scores" VALUES(1,'modelled',8.33333333333333284818e+04,NULL,NULL,2,'58b59b5618ae2cc80a6c71b2b276821d');
INSERT INTO "scores" VALUES(2,'modelled',1.66666666666666656972e+05,NULL,NULL,2,'58b59b5618ae2cc80a6c71b2b276821d');
INSERT INTO "scores" VALUES(4,'measured',2.0,1.8,2.2,2,'9484ed7b69d00cc78d5bc5419f6ab691');
CREATE INDEX records_key ON records ("key");
CREATE INDEX records_task ON records (task, direction, id);
CREATE INDEX records_candidate ON records (candidate, id);
CREATE INDEX records_run ON records (run, id);
CREATE INDEX notes_kind ON notes (run, kind, id);
CREATE INDEX calls_run ON calls (run);
CREATE INDEX parents_parent ON parents (parent);
CREATE INDEX scores_basis ON scores (basis, value);
COMMIT;
