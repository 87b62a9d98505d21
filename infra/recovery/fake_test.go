package main

import (
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"
)

// fakeAWS is an HTTP server with the parts of AWS that the tests need: functions with tags and reserved concurrency,
// tables with settings, and a KMS key. It implements AWS's protocols, so that the tests use the real SDK.
type fakeAWS struct {
	mu        sync.Mutex
	functions map[string]*fakeFunction
	tables    map[string]*fakeTable
	keyState  string
	// streamARN is the stream that calls functions, and mappingState is the state of its mappings.
	streamARN, mappingState string
	// requests is the number of requests so far. All requests from the number failFrom on fail; 0 means none. If
	// failAfterEffect is set, request failFrom takes effect before it fails.
	requests, failFrom int
	failAfterEffect    bool
	// transientFailure is the number of a request that fails only once, or 0.
	transientFailure int
	// handleTable is called first for requests about tables. It returns nil for requests that the fake itself should
	// handle.
	handleTable func(operation string, in map[string]any) any
	// invoke returns the result of calling a function: its error, or "", and its response.
	invoke func(name string, in map[string]any) (failure string, out any)
}

// fakeFunction is a function of fakeAWS.
type fakeFunction struct {
	reserved *int // the reserved concurrency, nil for none
	tags     map[string]string
	table    string // the table that the function uses
}

// fakeTable is a table of fakeAWS. Restored means that a restore created it. The other bools are its enabled settings.
// An index is missing if NoIndex is set.
type fakeTable struct {
	Restored, Stream, TTL, PITR, Protected bool
	NoIndex                                bool
	IndexState                             string // the state of the index, "" for an index without a state
	Tags                                   map[string]string
}

// state returns what a test compares: the reserved concurrency and the tags of a function, as JSON.
func (f *fakeFunction) state() string {
	text, _ := json.Marshal([]any{f.reserved, f.tags})
	return string(text)
}

// newWork returns a run of the command that uses s as AWS.
func newWork(t *testing.T, s *fakeAWS, r request) *work {
	t.Helper()
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	a, err := newClients(func(name string) string {
		return map[string]string{
			"AWS_REGION": "eu-west-1", "AWS_ACCESS_KEY_ID": "x", "AWS_SECRET_ACCESS_KEY": "x",
			"AWS_ENDPOINT_URL": server.URL,
		}[name]
	})
	if err != nil {
		t.Fatal(err)
	}
	r.stage, r.poll = "dev", time.Millisecond
	return &work{request: r, clients: a, console: console{strings.NewReader(""), io.Discard, io.Discard}, now: time.Now}
}

// ServeHTTP implements http.Handler.
func (a *fakeAWS) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.requests++
	body, _ := io.ReadAll(r.Body)
	var in map[string]any
	_ = json.Unmarshal(body, &in)
	fail := a.failFrom != 0 && a.requests >= a.failFrom // further requests must fail too, because the SDK retries
	if fail && !(a.failAfterEffect && a.requests == a.failFrom) {
		writeError(w, http.StatusBadRequest, "AccessDeniedException")
		return
	}
	if a.requests == a.transientFailure {
		writeError(w, http.StatusInternalServerError, "InternalServerError")
		return
	}
	recorder := httptest.NewRecorder()
	if target := r.Header.Get("X-Amz-Target"); target != "" {
		a.table(recorder, target[strings.LastIndex(target, ".")+1:], in)
	} else {
		a.function(recorder, r, in)
	}
	if fail {
		writeError(w, http.StatusBadRequest, "AccessDeniedException") // the request took effect, but its response is lost
		return
	}
	maps.Copy(w.Header(), recorder.Header())
	w.WriteHeader(recorder.Code)
	_, _ = w.Write(recorder.Body.Bytes())
}

func writeError(w http.ResponseWriter, status int, code string) {
	w.Header().Set("X-Amzn-Errortype", code)
	w.WriteHeader(status)
	_, _ = io.WriteString(w, `{"__type":"`+code+`","message":"no"}`)
}

func writeJSON(w http.ResponseWriter, out any) { _ = json.NewEncoder(w).Encode(out) }

// function handles a request for Lambda.
func (a *fakeAWS) function(w http.ResponseWriter, r *http.Request, in map[string]any) {
	// Paths are 2015-03-31/functions/NAME[/concurrency] and 2017-03-31/tags/ARN.
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	if parts[1] == "event-source-mappings" {
		writeJSON(w,
			map[string]any{"EventSourceMappings": []any{map[string]any{"EventSourceArn": a.streamARN, "State": a.mappingState}}})
		return
	}
	if a.invoke != nil && strings.HasSuffix(r.URL.Path, "/invocations") {
		failure, out := a.invoke(parts[2], in)
		if failure != "" {
			w.Header().Set("X-Amz-Function-Error", failure)
		}
		writeJSON(w, out)
		return
	}
	name := parts[2][strings.LastIndex(parts[2], ":")+1:]
	f := a.functions[name]
	if f == nil {
		writeError(w, http.StatusNotFound, "ResourceNotFoundException")
		return
	}
	switch {
	case parts[1] == "tags" && r.Method == http.MethodPost:
		for k, v := range in["Tags"].(map[string]any) {
			f.tags[k] = v.(string)
		}
		w.WriteHeader(http.StatusNoContent)
	case parts[1] == "tags":
		for _, k := range r.URL.Query()["tagKeys"] {
			delete(f.tags, k)
		}
		w.WriteHeader(http.StatusNoContent)
	case r.Method == http.MethodPut:
		n := int(in["ReservedConcurrentExecutions"].(float64))
		f.reserved = &n
		writeJSON(w, in)
	case r.Method == http.MethodDelete:
		f.reserved = nil
		w.WriteHeader(http.StatusNoContent)
	case strings.HasSuffix(r.URL.Path, "/configuration"):
		writeJSON(w,
			map[string]any{"Environment": map[string]any{"Variables": map[string]string{"GATEWRIGHT_TABLE": f.table}}})
	default:
		out := map[string]any{
			"Configuration": map[string]any{"FunctionArn": "arn:aws:lambda:eu-west-1:0:function:" + name},
			"Tags":          f.tags,
		}
		if f.reserved != nil {
			out["Concurrency"] = map[string]any{"ReservedConcurrentExecutions": *f.reserved}
		}
		writeJSON(w, out)
	}
}

// table handles a request for DynamoDB or KMS.
func (a *fakeAWS) table(w http.ResponseWriter, operation string, in map[string]any) {
	if a.handleTable != nil {
		if out := a.handleTable(operation, in); out != nil {
			writeJSON(w, out)
			return
		}
	}
	name, _ := in["TableName"].(string)
	for _, field := range []string{"TargetTableName", "ResourceArn"} {
		if text, ok := in[field].(string); ok {
			name = text[strings.LastIndex(text, "/")+1:]
		}
	}
	t := a.tables[name]
	switch {
	case operation == "DescribeKey":
		if a.keyState == "" {
			writeError(w, http.StatusBadRequest, "NotFoundException")
			return
		}
		writeJSON(w, map[string]any{"KeyMetadata": map[string]any{
			"KeyId": "key", "KeyState": a.keyState,
			"DeletionDate": 1795000000,
		}})
	case strings.HasPrefix(operation, "Restore"):
		if t != nil {
			writeError(w, http.StatusBadRequest, "TableAlreadyExistsException")
			return
		}
		a.tables[name] = &fakeTable{Restored: true, Tags: map[string]string{}}
		writeJSON(w, map[string]any{})
	case t == nil:
		writeError(w, http.StatusBadRequest, "ResourceNotFoundException")
	default:
		t.serve(w, name, operation, in)
	}
}

// serve handles a request for DynamoDB about an existing table.
func (t *fakeTable) serve(w http.ResponseWriter, name, operation string, in map[string]any) {
	status := func(enabled bool) string { return map[bool]string{true: "ENABLED", false: "DISABLED"}[enabled] }
	switch operation {
	case "DescribeTable":
		d := map[string]any{
			"TableName": name, "TableArn": "arn:aws:dynamodb:eu-west-1:000000000000:table/" + name,
			"TableStatus": "ACTIVE", "DeletionProtectionEnabled": t.Protected,
		}
		if !t.NoIndex {
			d["GlobalSecondaryIndexes"] = []any{map[string]any{"IndexName": "due", "IndexStatus": t.IndexState}}
		}
		if t.Stream {
			d["StreamSpecification"] = map[string]any{"StreamEnabled": true, "StreamViewType": "NEW_AND_OLD_IMAGES"}
			d["LatestStreamArn"] = d["TableArn"].(string) + "/stream/2026-11-25T14:02:00.000"
		}
		writeJSON(w, map[string]any{"Table": d})
	case "UpdateTable":
		if in["StreamSpecification"] != nil {
			if t.Stream {
				writeError(w, http.StatusBadRequest, "ValidationException") // the stream is enabled already
				return
			}
			t.Stream = true
		}
		if in["DeletionProtectionEnabled"] != nil {
			t.Protected = in["DeletionProtectionEnabled"].(bool)
		}
		writeJSON(w, map[string]any{})
	case "DescribeTimeToLive":
		writeJSON(w, map[string]any{"TimeToLiveDescription": map[string]any{"TimeToLiveStatus": status(t.TTL)}})
	case "UpdateTimeToLive":
		if t.TTL {
			writeError(w, http.StatusBadRequest, "ValidationException")
			return
		}
		t.TTL = in["TimeToLiveSpecification"].(map[string]any)["AttributeName"] == "ttl"
		writeJSON(w, map[string]any{})
	case "DescribeContinuousBackups":
		writeJSON(w, map[string]any{"ContinuousBackupsDescription": map[string]any{
			"ContinuousBackupsStatus":        "ENABLED",
			"PointInTimeRecoveryDescription": map[string]any{"PointInTimeRecoveryStatus": status(t.PITR)},
		}})
	case "UpdateContinuousBackups":
		t.PITR = true
		writeJSON(w, map[string]any{})
	case "TagResource":
		for _, tag := range in["Tags"].([]any) {
			t.Tags[tag.(map[string]any)["Key"].(string)] = tag.(map[string]any)["Value"].(string)
		}
		writeJSON(w, map[string]any{})
	case "ListTagsOfResource":
		var tags []any
		for k, v := range t.Tags {
			tags = append(tags, map[string]any{"Key": k, "Value": v})
		}
		writeJSON(w, map[string]any{"Tags": tags})
	default:
		writeError(w, http.StatusBadRequest, "UnknownOperationException")
	}
}
