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

// formation has CloudFormation answer for the stack of the services here, whose state is status; stream is that of a restored table.
func formation(t *testing.T, s *services, status, stream string, r request) *work {
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
			for name, value := range map[string]string{"TableName": "spoilt", "BucketName": "bucket", "RootKeyId": "key", "TableStream": stream} {
				if value != "" {
					fmt.Fprintf(&out, "<member><OutputKey>%s</OutputKey><OutputValue>%s</OutputValue></member>", name, value)
				}
			}
			text := "<Stacks><member><StackName>gatewright-dev</StackName><StackStatus>" + status + "</StackStatus><Outputs>" + out.String() + "</Outputs></member></Stacks>"
			out.Reset()
			out.WriteString(text)
		case "ListStackResources":
			out.WriteString("<StackResourceSummaries>")
			for name := range s.functions {
				fmt.Fprintf(&out, "<member><ResourceType>AWS::Lambda::Function</ResourceType><PhysicalResourceId>%s</PhysicalResourceId></member>", name)
			}
			out.WriteString("</StackResourceSummaries>")
		}
		_, _ = fmt.Fprintf(w, "<%[1]sResponse xmlns=\"http://cloudformation.amazonaws.com/doc/2010-05-15/\"><%[1]sResult>%[2]s</%[1]sResult></%[1]sResponse>", action, out.String())
	}))
	t.Cleanup(server.Close)
	a, err := open(func(name string) string {
		return map[string]string{"AWS_REGION": "eu-west-1", "AWS_ACCESS_KEY_ID": "x", "AWS_SECRET_ACCESS_KEY": "x", "AWS_ENDPOINT_URL": server.URL}[name]
	})
	if err != nil {
		t.Fatal(err)
	}
	w := newWork(t, s, r)
	w.installed = a
	return w
}

// TestStackThatIsBeingChangedIsLeftAlone: CloudFormation would undo one half of what is done, or find it changed.
func TestStackThatIsBeingChangedIsLeftAlone(t *testing.T) {
	for status, still := range map[string]bool{"UPDATE_COMPLETE": true, "UPDATE_ROLLBACK_COMPLETE": true, "UPDATE_IN_PROGRESS": false, "UPDATE_COMPLETE_CLEANUP_IN_PROGRESS": false} {
		for name, r := range map[string]request{"stop": {stop: true, agreed: true}, "start": {start: true}, "restore": {at: planned().moment, as: "restored", agreed: true}} {
			s := deployed()
			if still && name != "stop" {
				continue // what those do is tested elsewhere
			}
			err := formation(t, s, status, "", r).run(t.Context())
			if still && (err != nil || stopped(s) != 3) {
				t.Errorf("%s, %s: %d functions are stopped, %v", status, name, stopped(s), err)
			}
			if !still && (err == nil || !strings.Contains(err.Error(), "is being changed ("+status+")") || stopped(s) > 0 || len(s.tables) > 1) {
				t.Errorf("%s, %s: %d functions are stopped, %v", status, name, stopped(s), err)
			}
		}
	}
}

// TestLiveTableIsNotRestoredOver, by whatever name; one that the stack goes on with since a restore is looked after.
func TestLiveTableIsNotRestoredOver(t *testing.T) {
	now := time.Now()
	has := backups{from: now.Add(-24 * time.Hour), to: now.Add(-5 * time.Minute)}
	for _, c := range []struct {
		stream  string
		adopted bool
	}{{"", false}, {"arn:aws:dynamodb:eu-west-1:000000000000:table/spoilt/stream/x", true}} {
		s := deployed()
		s.also = has.tell
		p, err := formation(t, s, "UPDATE_COMPLETE", c.stream, request{at: now.Add(-time.Hour), as: "spoilt"}).planOf(t.Context())
		if p.adopted != c.adopted || (err == nil) != c.adopted || err != nil && !strings.Contains(err.Error(), "over which nothing is restored") {
			t.Errorf("with the stream %q: %+v, %v", c.stream, p, err)
		}
	}
}

// TestNothingIsOpenedWhoseRootKeyDoesNotOpen, though its KMS key is enabled: all of it would answer 500. What is opened has its audit logs verified.
func TestNothingIsOpenedWhoseRootKeyDoesNotOpen(t *testing.T) {
	s, of := deployed(), tell(t)
	var said bytes.Buffer
	w := stopping(t, s, of, request{stop: true})
	w.console = console{strings.NewReader(""), io.Discard, &said}
	its := planned().stack
	if err := w.stopAll(t.Context(), its); err != nil {
		t.Fatal(err)
	}
	if err := w.startAll(t.Context(), its); err != nil || strings.Count(said.String(), "the audit log of ") == 0 {
		t.Errorf("it is opened with %v, and says %s", err, said.String())
	}
	if err := w.stopAll(t.Context(), its); err != nil {
		t.Fatal(err)
	}
	of.keys.Disable("key")
	if err := w.startAll(t.Context(), its); err == nil || !strings.Contains(err.Error(), "open the root key of spoilt") || stopped(s) != 3 {
		t.Errorf("it is answered %v, and %d functions are stopped", err, stopped(s))
	}
}

// visited is a history that counts how often all of it was looked at.
type visited struct {
	history
	times *int
}

func (v visited) each(ctx context.Context, visit func(key string, v version) error) error {
	*v.times++
	return v.history.each(ctx, visit)
}

// TestTableIsRestoredWhenNothingChangesTheOneOfBefore: that is protected, then all is stopped by a restore's own notes, then there is a second
// table, wherever it was killed. Who gives it up has the bucket looked through for what the table of before opens.
func TestTableIsRestoredWhenNothingChangesTheOneOfBefore(t *testing.T) {
	for _, n := range []int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14} { // 0 is killed nowhere
		s, of, looked := deployed(), tell(t), 0
		var said bytes.Buffer
		w := stopping(t, s, of, request{revived: keep})
		w.console, w.versions = console{strings.NewReader(""), &said, io.Discard}, visited{history{}, &looked}
		s.fails = n
		err := w.before(t.Context(), planned())
		if (err == nil) != (n == 0) {
			t.Fatalf("killed at request %d it answers %v", n, err)
		}
		closed, opened := 0, false
		for name, f := range s.functions {
			if _, there := f.tags[closedTag]; there {
				closed++
			}
			if _, there := f.tags[stoppedTag]; there || name == "gatewright-dev-gateway" && f.reserved != nil {
				opened = true
			}
		}
		switch restored := s.tables["restored"] != nil; {
		case closed > 0 && !s.tables["spoilt"].Protected:
			t.Errorf("killed at request %d: functions are stopped, and the table of before can be deleted", n)
		case restored && (closed != 2 || stopped(s) != 2):
			t.Errorf("killed at request %d: a table is restored while %d functions are stopped, of which %d have a note", n, stopped(s), closed)
		case opened:
			t.Errorf("killed at request %d: the gateway is stopped, or by the note of another", n)
		}
		if n > 0 {
			continue
		}
		if !strings.Contains(said.String(), `"tableStream": "arn:aws:dynamodb:eu-west-1:000000000000:table/restored/stream/`) || looked != 1 {
			t.Errorf("it has looked at the bucket %d times, and says %s", looked, said.String())
		}
		if err := w.giveUp(t.Context(), planned().stack); err != nil || stopped(s) != 0 || looked != 2 {
			t.Errorf("given up, %d functions are stopped, and it has looked %d times (%v)", stopped(s), looked, err)
		}
	}
}
