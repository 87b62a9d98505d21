package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// newWorkWithStack returns a run of the command that uses s as AWS, with a CloudFormation whose stack has a status and
// the functions of s. stream is the ARN of the stream of a restored table that the stack uses, or "".
func newWorkWithStack(t *testing.T, s *fakeAWS, status, stream string, r request) *work {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !strings.HasPrefix(r.Header.Get("Content-Type"), "application/x-www-form-urlencoded") {
			s.ServeHTTP(w, r)
			return
		}
		action := r.FormValue("Action")
		var out strings.Builder
		switch action {
		case "DescribeStacks":
			for name, value := range map[string]string{
				"TableName": "damaged", "BucketName": "bucket", "RootKeyId": "key",
				"TableStream": stream,
			} {
				if value != "" {
					fmt.Fprintf(&out, "<member><OutputKey>%s</OutputKey><OutputValue>%s</OutputValue></member>", name, value)
				}
			}
			text := "<Stacks><member><StackName>gatewright-dev</StackName><StackStatus>" +
				status + "</StackStatus><Outputs>" + out.String() + "</Outputs></member></Stacks>"
			out.Reset()
			out.WriteString(text)
		case "ListStackResources":
			out.WriteString("<StackResourceSummaries>")
			for name := range s.functions {
				fmt.Fprintf(&out,
					"<member><ResourceType>AWS::Lambda::Function</ResourceType><PhysicalResourceId>%s</PhysicalResourceId></member>",
					name)
			}
			out.WriteString("</StackResourceSummaries>")
		}
		_, _ = fmt.Fprintf(w,
			"<%[1]sResponse xmlns=\"http://cloudformation.amazonaws.com/doc/2010-05-15/\"><%[1]sResult>%[2]s</%[1]sResult></%[1]sResponse>", action, out.String())
	}))
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
	w := newWork(t, s, r)
	w.clients = a
	return w
}

// TestStackDuringAnUpdateIsRefused checks that nothing is changed during an update of the stack: CloudFormation would
// undo some of the changes, or fail because of them. After an update, the functions can be stopped.
func TestStackDuringAnUpdateIsRefused(t *testing.T) {
	for status, stable := range map[string]bool{
		"UPDATE_COMPLETE": true, "UPDATE_ROLLBACK_COMPLETE": true,
		"UPDATE_IN_PROGRESS": false, "UPDATE_COMPLETE_CLEANUP_IN_PROGRESS": false,
	} {
		for name, r := range map[string]request{
			"stop": {stop: true, confirmed: true}, "start": {start: true},
			"restore": {at: testPlan().moment, targetName: "restored", confirmed: true},
		} {
			s := newFakeAWS()
			if stable && name != "stop" {
				continue // other tests check start and restore
			}
			err := newWorkWithStack(t, s, status, "", r).run(t.Context())
			if stable && (err != nil || stoppedCount(s) != 3) {
				t.Errorf("%s, %s: run() = %v with %d functions stopped, want no error and 3", status, name, err, stoppedCount(s))
			}
			if !stable && (err == nil || !strings.Contains(err.Error(), "is being changed ("+status+")") ||
				stoppedCount(s) > 0 || len(s.tables) > 1) {
				t.Errorf("%s, %s: run() = %v with %d functions stopped and %d tables, want a refusal, 0 and 1", status, name, err,
					stoppedCount(s), len(s.tables))
			}
		}
	}
}

// TestLiveTableIsNotRestoredOver checks a target name that is the name of the stack's table. It is refused, unless the
// stack uses a restored table: then the command runs the second part of the restore.
func TestLiveTableIsNotRestoredOver(t *testing.T) {
	now := time.Now()
	available := backups{from: now.Add(-24 * time.Hour), to: now.Add(-5 * time.Minute)}
	for _, c := range []struct {
		stream       string
		wantDeployed bool
	}{{"", false}, {"arn:aws:dynamodb:eu-west-1:000000000000:table/damaged/stream/x", true}} {
		s := newFakeAWS()
		s.handleTable = available.handle
		p, err := newWorkWithStack(t, s, "UPDATE_COMPLETE", c.stream,
			request{at: now.Add(-time.Hour), targetName: "damaged"}).newPlan(t.Context())
		if p.deployed != c.wantDeployed || (err == nil) != c.wantDeployed ||
			err != nil && !strings.Contains(err.Error(), "over which nothing is restored") {
			t.Errorf("newPlan(stream %q) = %+v, %v, want deployed: %v, otherwise \"over which nothing is restored\"", c.stream,
				p, err, c.wantDeployed)
		}
	}
}

// TestStartRefusesUnusableRootKey checks that an installation is not started if its root key cannot be unwrapped,
// because all requests would fail with 500. It also checks that a start verifies the audit logs.
func TestStartRefusesUnusableRootKey(t *testing.T) {
	s, sc := newFakeAWS(), newScenario(t)
	var logs bytes.Buffer
	w := newStopWork(t, s, sc, request{stop: true})
	w.console = console{strings.NewReader(""), io.Discard, &logs}
	st := testPlan().stack
	if err := w.stopAll(t.Context(), st); err != nil {
		t.Fatal(err)
	}
	if err := w.startAll(t.Context(), st); err != nil || strings.Count(logs.String(), "the audit log of ") == 0 {
		t.Errorf("startAll() = %v, want no error and a line about the audit log; log %s", err, logs.String())
	}
	if err := w.stopAll(t.Context(), st); err != nil {
		t.Fatal(err)
	}
	sc.kms.Disable("key")
	if err := w.startAll(t.Context(), st); err == nil || !strings.Contains(err.Error(), "open the root key of damaged") ||
		stoppedCount(s) != 3 {
		t.Errorf("startAll(disabled KMS key) = %v with %d functions stopped, want an error of the root key and 3", err,
			stoppedCount(s))
	}
}

// countingBucket is a memoryBucket that counts the calls of walk.
type countingBucket struct {
	memoryBucket
	scans *int
}

func (b countingBucket) walk(ctx context.Context, visit func(key string, b version) error) error {
	*b.scans++
	return b.memoryBucket.walk(ctx, visit)
}

// TestTableIsRestoredAfterFunctionsAreStopped interrupts the first part of a restore at each of its first 14 requests.
// It checks the order of the steps: the source table is protected, then functions are stopped with the restore's tag,
// then the new table is created. The gateway is not stopped. Giving the restore up starts the functions again and scans
// the bucket to restore artifacts.
func TestTableIsRestoredAfterFunctionsAreStopped(t *testing.T) {
	for _, n := range []int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14} { // 0 means no interruption
		s, sc, scans := newFakeAWS(), newScenario(t), 0
		var logs bytes.Buffer
		w := newStopWork(t, s, sc, request{revivedPolicy: keep})
		w.console, w.versions = console{strings.NewReader(""), &logs, io.Discard}, countingBucket{memoryBucket{}, &scans}
		s.failFrom = n
		err := w.beginRestore(t.Context(), testPlan())
		if (err == nil) != (n == 0) {
			t.Fatalf("beginRestore() killed at request %d (0: not killed) = %v, want an error only if it is killed", n, err)
		}
		tagged, gatewayStopped := 0, false
		for name, f := range s.functions {
			if _, ok := f.tags[restoreTag]; ok {
				tagged++
			}
			if _, ok := f.tags[stoppedTag]; ok || name == "gatewright-dev-gateway" && f.reserved != nil {
				gatewayStopped = true
			}
		}
		switch restored := s.tables["restored"] != nil; {
		case tagged > 0 && !s.tables["damaged"].Protected:
			t.Errorf("killed at request %d: functions are stopped, and the source table is not protected, want it protected", n)
		case restored && (tagged != 2 || stoppedCount(s) != 2):
			t.Errorf("killed at request %d: a table is restored with %d functions stopped and %d tagged, want 2 and 2", n,
				stoppedCount(s), tagged)
		case gatewayStopped:
			t.Errorf("killed at request %d: the gateway is stopped or tagged, want no change", n)
		}
		if n > 0 {
			continue
		}
		if !strings.Contains(logs.String(),
			`"tableStream": "arn:aws:dynamodb:eu-west-1:000000000000:table/restored/stream/`) || scans != 1 {
			t.Errorf("the bucket is scanned %d times, want 1 and a log with the restored table's stream; log %s", scans,
				logs.String())
		}
		if err := w.abandonRestore(t.Context(), testPlan().stack); err != nil || stoppedCount(s) != 0 || scans != 2 {
			t.Errorf("abandonRestore() = %v with %d functions stopped and %d scans, want no error, 0 and 2", err,
				stoppedCount(s), scans)
		}
	}
}
