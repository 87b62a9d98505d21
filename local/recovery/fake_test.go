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

// services are as much of AWS as the tests here ask: functions with tags and reserved concurrency, tables with
// settings, a KMS key. They answer as AWS does by its protocols, so that the SDK is part of what is tested.
type services struct {
	mu        sync.Mutex
	functions map[string]*fakeFunction
	tables    map[string]*fakeTable
	keyState  string
	// told is the stream that calls functions, by mappings of a state.
	told, mapping string
	// asked counts requests; the one of the number fails is answered with a failure before it has its effect, or after.
	asked, fails int
	after        bool
	// stumbles is the number of a request that is answered with what goes by if it is asked again, 0 for none.
	stumbles int
	// also answers a request about tables in place of what is here, nil for what it does not know.
	also func(operation string, in map[string]any) any
	// called answers who is called: the error of a function, "" for none, and its answer.
	called func(name string, in map[string]any) (failure string, out any)
}

type fakeFunction struct {
	reserved *int
	tags     map[string]string
	table    string // that it works on
}

type fakeTable struct {
	Restored, Stream, TTL, PITR, Protected bool
	NoIndex                                bool
	IndexState                             string // of the index, "" for none
	Tags                                   map[string]string
}

func (f *fakeFunction) state() string {
	text, _ := json.Marshal([]any{f.reserved, f.tags})
	return string(text)
}

// newWork is the command over services, whose failures are not repeated by the SDK for long.
func newWork(t *testing.T, s *services, r request) *work {
	t.Helper()
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	a, err := open(func(name string) string {
		return map[string]string{"AWS_REGION": "eu-west-1", "AWS_ACCESS_KEY_ID": "x", "AWS_SECRET_ACCESS_KEY": "x", "AWS_ENDPOINT_URL": server.URL}[name]
	})
	if err != nil {
		t.Fatal(err)
	}
	r.stage, r.poll = "dev", time.Millisecond
	return &work{request: r, installed: a, console: console{strings.NewReader(""), io.Discard, io.Discard}, now: time.Now}
}

// ServeHTTP implements http.Handler.
func (s *services) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked++
	body, _ := io.ReadAll(r.Body)
	var in map[string]any
	_ = json.Unmarshal(body, &in)
	fail := s.fails != 0 && s.asked >= s.fails // from then on all does: the SDK asks again
	if fail && !(s.after && s.asked == s.fails) {
		refuse(w, http.StatusBadRequest, "AccessDeniedException")
		return
	}
	if s.asked == s.stumbles {
		refuse(w, http.StatusInternalServerError, "InternalServerError")
		return
	}
	recorder := httptest.NewRecorder()
	if target := r.Header.Get("X-Amz-Target"); target != "" {
		s.table(recorder, target[strings.LastIndex(target, ".")+1:], in)
	} else {
		s.function(recorder, r, in)
	}
	if fail {
		refuse(w, http.StatusBadRequest, "AccessDeniedException") // done, and the answer lost
		return
	}
	maps.Copy(w.Header(), recorder.Header())
	w.WriteHeader(recorder.Code)
	_, _ = w.Write(recorder.Body.Bytes())
}

func refuse(w http.ResponseWriter, status int, code string) {
	w.Header().Set("X-Amzn-Errortype", code)
	w.WriteHeader(status)
	_, _ = io.WriteString(w, `{"__type":"`+code+`","message":"no"}`)
}

func answer(w http.ResponseWriter, out any) { _ = json.NewEncoder(w).Encode(out) }

func (s *services) function(w http.ResponseWriter, r *http.Request, in map[string]any) {
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/") // 2015-03-31/functions/NAME, /concurrency; 2017-03-31/tags/ARN
	if parts[1] == "event-source-mappings" {
		answer(w, map[string]any{"EventSourceMappings": []any{map[string]any{"EventSourceArn": s.told, "State": s.mapping}}})
		return
	}
	if s.called != nil && strings.HasSuffix(r.URL.Path, "/invocations") {
		failure, out := s.called(parts[2], in)
		if failure != "" {
			w.Header().Set("X-Amz-Function-Error", failure)
		}
		answer(w, out)
		return
	}
	name := parts[2][strings.LastIndex(parts[2], ":")+1:]
	f := s.functions[name]
	if f == nil {
		refuse(w, http.StatusNotFound, "ResourceNotFoundException")
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
		answer(w, in)
	case r.Method == http.MethodDelete:
		f.reserved = nil
		w.WriteHeader(http.StatusNoContent)
	case strings.HasSuffix(r.URL.Path, "/configuration"):
		answer(w, map[string]any{"Environment": map[string]any{"Variables": map[string]string{"GATEWRIGHT_TABLE": f.table}}})
	default:
		out := map[string]any{"Configuration": map[string]any{"FunctionArn": "arn:aws:lambda:eu-west-1:0:function:" + name}, "Tags": f.tags}
		if f.reserved != nil {
			out["Concurrency"] = map[string]any{"ReservedConcurrentExecutions": *f.reserved}
		}
		answer(w, out)
	}
}

func (s *services) table(w http.ResponseWriter, operation string, in map[string]any) {
	if s.also != nil {
		if out := s.also(operation, in); out != nil {
			answer(w, out)
			return
		}
	}
	name, _ := in["TableName"].(string)
	for _, other := range []string{"TargetTableName", "ResourceArn"} {
		if text, ok := in[other].(string); ok {
			name = text[strings.LastIndex(text, "/")+1:]
		}
	}
	t := s.tables[name]
	switch {
	case operation == "DescribeKey":
		if s.keyState == "" {
			refuse(w, http.StatusBadRequest, "NotFoundException")
			return
		}
		answer(w, map[string]any{"KeyMetadata": map[string]any{"KeyId": "key", "KeyState": s.keyState, "DeletionDate": 1795000000}})
	case strings.HasPrefix(operation, "Restore"):
		if t != nil {
			refuse(w, http.StatusBadRequest, "TableAlreadyExistsException")
			return
		}
		s.tables[name] = &fakeTable{Restored: true, Tags: map[string]string{}}
		answer(w, map[string]any{})
	case t == nil:
		refuse(w, http.StatusBadRequest, "ResourceNotFoundException")
	default:
		t.serve(w, name, operation, in)
	}
}

func (t *fakeTable) serve(w http.ResponseWriter, name, operation string, in map[string]any) {
	is := func(on bool) string { return map[bool]string{true: "ENABLED", false: "DISABLED"}[on] }
	switch operation {
	case "DescribeTable":
		d := map[string]any{"TableName": name, "TableArn": "arn:aws:dynamodb:eu-west-1:000000000000:table/" + name, "TableStatus": "ACTIVE", "DeletionProtectionEnabled": t.Protected}
		if !t.NoIndex {
			d["GlobalSecondaryIndexes"] = []any{map[string]any{"IndexName": "due", "IndexStatus": t.IndexState}}
		}
		if t.Stream {
			d["StreamSpecification"] = map[string]any{"StreamEnabled": true, "StreamViewType": "NEW_AND_OLD_IMAGES"}
			d["LatestStreamArn"] = d["TableArn"].(string) + "/stream/2026-11-25T14:02:00.000"
		}
		answer(w, map[string]any{"Table": d})
	case "UpdateTable":
		if in["StreamSpecification"] != nil {
			if t.Stream {
				refuse(w, http.StatusBadRequest, "ValidationException") // it has one
				return
			}
			t.Stream = true
		}
		if in["DeletionProtectionEnabled"] != nil {
			t.Protected = in["DeletionProtectionEnabled"].(bool)
		}
		answer(w, map[string]any{})
	case "DescribeTimeToLive":
		answer(w, map[string]any{"TimeToLiveDescription": map[string]any{"TimeToLiveStatus": is(t.TTL)}})
	case "UpdateTimeToLive":
		if t.TTL {
			refuse(w, http.StatusBadRequest, "ValidationException")
			return
		}
		t.TTL = in["TimeToLiveSpecification"].(map[string]any)["AttributeName"] == "ttl"
		answer(w, map[string]any{})
	case "DescribeContinuousBackups":
		answer(w, map[string]any{"ContinuousBackupsDescription": map[string]any{"ContinuousBackupsStatus": "ENABLED", "PointInTimeRecoveryDescription": map[string]any{"PointInTimeRecoveryStatus": is(t.PITR)}}})
	case "UpdateContinuousBackups":
		t.PITR = true
		answer(w, map[string]any{})
	case "TagResource":
		for _, tag := range in["Tags"].([]any) {
			t.Tags[tag.(map[string]any)["Key"].(string)] = tag.(map[string]any)["Value"].(string)
		}
		answer(w, map[string]any{})
	case "ListTagsOfResource":
		var tags []any
		for k, v := range t.Tags {
			tags = append(tags, map[string]any{"Key": k, "Value": v})
		}
		answer(w, map[string]any{"Tags": tags})
	default:
		refuse(w, http.StatusBadRequest, "UnknownOperationException")
	}
}
