package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"io"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-lambda-go/events"

	"github.com/gatewright/gatewright/shared/accounts"
	"github.com/gatewright/gatewright/shared/audit"
	"github.com/gatewright/gatewright/shared/auth"
	"github.com/gatewright/gatewright/shared/blob"
	"github.com/gatewright/gatewright/shared/config"
	"github.com/gatewright/gatewright/shared/durable"
	"github.com/gatewright/gatewright/shared/ids"
	"github.com/gatewright/gatewright/shared/installation"
	"github.com/gatewright/gatewright/shared/keys"
	"github.com/gatewright/gatewright/shared/operation"
	"github.com/gatewright/gatewright/shared/store"
	"github.com/gatewright/gatewright/shared/store/memory"
	"github.com/gatewright/gatewright/shared/store/rootkey"
	"github.com/gatewright/gatewright/shared/store/rootkey/rootkeytest"
	"github.com/gatewright/gatewright/shared/store/storetest"
	"github.com/gatewright/gatewright/shared/tunnels"
)

// story is an installation as it was at a moment, and as it is now.
type story struct {
	then, now *memory.Backend
	ends      time.Time
	moment    time.Time
	// keys are the KMS keys of all tables.
	keys *rootkeytest.KMS
}

func partsOver(t *testing.T, b *memory.Backend, of *rootkeytest.KMS, now func() time.Time) installation.Parts {
	table := storetest.Over(t, b, storetest.Clock(now))
	return installation.Parts{
		Config: config.Config{Relay: "https://relay.test"}, Table: table, Bucket: blob.NewMemory(now), Key: rootkey.New(of, "key", table, now),
		Random: rand.Reader, IDs: ids.NewSource(rand.Reader, now), Now: now, Log: slog.New(slog.DiscardHandler),
	}
}

// rotated has the root key of a table be rotated, up to a stage, "" for its end.
func rotated(t *testing.T, b *memory.Backend, of *rootkeytest.KMS, until string) {
	t.Helper()
	now := time.Now()
	parts := func() installation.Parts { return partsOver(t, b, of, func() time.Time { return now }) }
	its, err := durable.Rotation(parts()).Start(t.Context(), "auditor")
	for n := 0; err == nil && its.EndedOn == nil && (until == "" || its.Stage != until); n++ {
		if n > 100 {
			t.Fatalf("it does not come to %q: %+v", until, its)
		}
		now = now.Add(time.Hour)
		var engine *operation.Engine
		if engine, err = durable.Engine(parts()); err == nil {
			err = engine.Sweep(t.Context())
		}
		if err == nil {
			its, err = durable.Rotation(parts()).Status(t.Context())
		}
	}
	if err != nil {
		t.Fatal(err)
	}
}

// later is when the restore is.
func later() time.Time { return time.Now().Add(time.Minute) }

// tell makes one, whose root key was rotated up to these stages before the moment: since the moment a key of each kind was revoked, one made to end sooner, one made, and one stays.
func tell(t *testing.T, before ...string) story {
	t.Helper()
	s := story{now: memory.New(), ends: store.Instant(time.Now().Add(time.Hour)), keys: rootkeytest.New("key")}
	p := partsOver(t, s.now, s.keys, time.Now)
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	a, _, err := accounts.Open(p).Create(t.Context(), "demo")
	must(err)
	owner := auth.Owner{AccountID: a.ID, Account: a.Name, Viewer: auth.Principal{AccountID: a.ID, AccountName: a.Name, Permissions: auth.Full()}}
	as := func(action audit.Action) context.Context {
		return audit.With(t.Context(), &audit.Request{AccountID: a.ID, Action: action, RequestID: p.IDs.UUID(), Time: p.Now()})
	}
	leaver, _, err := accounts.Open(p).CreateKey(t.Context(), "demo", accounts.Spec{Label: "leaver", Permissions: auth.Full()})
	must(err)
	bucket := keys.BucketAt{Owner: owner, Bucket: "consumers"}
	_, err = keys.Open(p).CreateBucket(as("key-bucket.create"), owner, keys.NewBucket{Name: bucket.Bucket})
	must(err)
	made := map[string]string{}
	for _, name := range []string{"stays", "revoked", "rolled"} {
		_, err := keys.Open(p).CreateConsumer(as("consumer.create"), bucket, keys.NewConsumer{Name: name})
		must(err)
		k, err := keys.Open(p).CreateKey(as("api-key.create"), keys.ConsumerAt{BucketAt: bucket, Consumer: name}, keys.NewKey{})
		must(err)
		made[name] = k.ID
	}
	office, err := tunnels.Open(p).Create(as("tunnel.create"), owner, "office")
	must(err)
	_, err = tunnels.Open(p).Create(as("tunnel.create"), owner, "stays")
	must(err)

	for _, until := range before {
		rotated(t, s.now, s.keys, until)
		p = partsOver(t, s.now, s.keys, time.Now)
	}
	s.then, s.moment = s.now.Clone(), time.Now()

	must(accounts.Open(p).RevokeKey(t.Context(), "demo", leaver.ID, false))
	must(keys.Open(p).DeleteKey(as("api-key.delete"), keys.ConsumerAt{BucketAt: bucket, Consumer: "revoked"}, made["revoked"]))
	_, err = keys.Open(p).UpdateKey(as("api-key.update"), keys.ConsumerAt{BucketAt: bucket, Consumer: "rolled"}, made["rolled"], keys.KeyPatch{ExpiresOn: store.PatchTo(s.ends)})
	must(err)
	_, err = tunnels.Open(p).Rotate(as("tunnel.rotate-token"), owner, office.ID)
	must(err)
	_, err = keys.Open(p).CreateKey(as("api-key.create"), keys.ConsumerAt{BucketAt: bucket, Consumer: "stays"}, keys.NewKey{})
	must(err)
	return s
}

// over is the command over the two tables of a story.
func (s story) over(t *testing.T, out io.Writer, revived string) *work {
	w := &work{request: request{revived: revived}, console: console{strings.NewReader(""), out, io.Discard}, now: later}
	backends := map[string]*memory.Backend{"restored": s.then, "spoilt": s.now}
	w.over = func(table string) installation.Parts { return partsOver(t, backends[table], s.keys, later) }
	w.each = func(_ context.Context, table string, visit func(store.Item) error) error {
		for _, item := range backends[table].Items() {
			if err := visit(item); err != nil {
				return err
			}
		}
		return nil
	}
	return w
}

// settled does what the command does about what comes alive.
func (s story) settled(t *testing.T, p plan, revived string) (out string, err error) {
	t.Helper()
	var b bytes.Buffer
	w := s.over(t, &b, revived)
	restored, err := w.survey(t.Context(), p.target)
	if err != nil {
		t.Fatal(err)
	}
	err = w.settleRevived(t.Context(), p, restored, s.moment)
	return b.String(), err
}

// TestWhoComesAliveIsListedAndNobodyGoesOnUnasked: keys of each kind that had ended since the moment, and none that had not.
func TestWhoComesAliveIsListedAndNobodyGoesOnUnasked(t *testing.T) {
	s := tell(t)
	out, err := s.settled(t, planned(), "")
	if err == nil || !strings.Contains(err.Error(), "4 keys and tokens") || !strings.Contains(err.Error(), "REVIVED=revoke") {
		t.Errorf("unasked it answers %v", err)
	}
	var kinds []string
	for line := range strings.Lines(out) {
		switch {
		case strings.HasPrefix(line, "account key ") && strings.Contains(line, `("leaver") of demo`):
			kinds = append(kinds, "account key")
		case strings.Contains(line, `of the consumer "revoked" in the bucket "consumers"`) && strings.Contains(line, "had ended since"):
			kinds = append(kinds, "deleted")
		case strings.Contains(line, `of the consumer "rolled"`) && strings.Contains(line, "was to end on "+s.ends.Format(time.RFC3339)):
			kinds = append(kinds, "rolled")
		case strings.HasPrefix(line, "tunnel token of the tunnel "):
			kinds = append(kinds, "tunnel")
		default:
			kinds = append(kinds, line)
		}
	}
	slices.Sort(kinds)
	if want := []string{"account key", "deleted", "rolled", "tunnel"}; !slices.Equal(kinds, want) {
		t.Errorf("it lists %q, want %q", kinds, want)
	}
}

// TestRotationBetweenRevivesNobody: after one each key is known by another hash, which is none that was revoked; nor is it where the
// moment, or the end, is in the middle of one. Of root keys that went on apart nobody knows.
func TestRotationBetweenRevivesNobody(t *testing.T) {
	for name, c := range map[string]struct {
		before, since []string // the stages up to which it is rotated before the moment and since then
	}{
		"since then":                   {since: []string{""}},
		"twice since then":             {since: []string{"", ""}},
		"one goes on":                  {since: []string{"hold"}},
		"the moment is in one":         {before: []string{"renew"}},
		"the moment is at one's end":   {before: []string{"settle"}},
		"before the moment, and since": {before: []string{""}, since: []string{""}},
	} {
		t.Run(name, func(t *testing.T) {
			s := tell(t, c.before...)
			for _, until := range c.since {
				rotated(t, s.now, s.keys, until)
			}
			out, err := s.settled(t, planned(), "")
			if err == nil || !strings.Contains(err.Error(), "4 keys and tokens") {
				t.Errorf("it answers %v and lists\n%s", err, out)
			}
			if _, err := s.settled(t, planned(), revoke); err != nil {
				t.Fatal(err)
			}
			if out, err := s.settled(t, planned(), ""); err != nil || out != "" {
				t.Errorf("afterwards it answers %v and lists %q", err, out)
			}
		})
	}
	t.Run("apart", func(t *testing.T) {
		s := tell(t)
		rotated(t, s.now, s.keys, "")
		rotated(t, s.then, s.keys, "")
		for revived, ok := range map[string]bool{"": false, revoke: false, keep: true} {
			out, err := s.settled(t, planned(), revived)
			if (err == nil) != ok || out != "" || err != nil && (!strings.Contains(err.Error(), "rotated apart") || strings.Contains(err.Error(), "\n")) {
				t.Errorf("REVIVED=%s is answered with %v and %q", revived, err, out)
			}
		}
	})
}

// TestWhatHadEndedEndsAgain once it is told so: as it had ended, recorded in the account's audit log, and a second time nothing is left to do.
func TestWhatHadEndedEndsAgain(t *testing.T) {
	s := tell(t)
	waiting := func() (n int) {
		for key := range s.then.Items() {
			if audit.IsNew(key) {
				n++
			}
		}
		return n
	}
	before := waiting()
	if _, err := s.settled(t, planned(), revoke); err != nil {
		t.Fatal(err)
	}
	if n := waiting() - before; n != 4 {
		t.Errorf("%d audit records say so", n)
	}
	if out, err := s.settled(t, planned(), ""); err != nil || out != "" {
		t.Errorf("afterwards it answers %v and lists %q", err, out)
	}
	w := s.over(t, io.Discard, "")
	restored, err := w.survey(t.Context(), "restored")
	if err != nil {
		t.Fatal(err)
	}
	kinds := map[string]int{}
	for _, c := range restored.credentials {
		kinds[c.kind]++
		if c.kind == consumerKey && c.consumer == "rolled" && (c.expiresOn == nil || !c.expiresOn.Equal(s.ends)) {
			t.Errorf("the key that was to end later ends on %v", c.expiresOn)
		}
	}
	if kinds[accountKey] != 1 || kinds[consumerKey] != 2 || kinds[tunnelToken] != 2 {
		t.Errorf("there are %v", kinds)
	}
}

// TestWhatIsKeptIsSaid, and of a table that is gone only who says so goes on.
func TestWhatIsKeptIsSaid(t *testing.T) {
	s := tell(t)
	if out, err := s.settled(t, planned(), keep); err != nil || strings.Count(out, "\n") != 4 {
		t.Errorf("it is kept with %v and %q", err, out)
	}
	gone := planned()
	gone.there, gone.backup = false, "arn:aws:dynamodb:eu-west-1:000000000000:table/spoilt/backup/1"
	for revived, ok := range map[string]bool{"": false, revoke: false, keep: true} {
		if _, err := s.settled(t, gone, revived); (err == nil) != ok {
			t.Errorf("without the table of before REVIVED=%s is answered with %v", revived, err)
		}
	}
	gone.ended = true
	if _, err := s.settled(t, gone, ""); err != nil {
		t.Errorf("of a table's own end it is answered with %v", err)
	}
}

// TestFunctionsAreToldOfWhatTheStreamTells: of each item that its filter takes, as if it had just been made, in batches
// that Lambda takes.
func TestFunctionsAreToldOfWhatTheStreamTells(t *testing.T) {
	s := tell(t)
	w := s.over(t, io.Discard, "")
	told := map[string]int{}
	err := w.told(t.Context(), "restored", func(_ context.Context, function string, batch []events.DynamoDBEventRecord) error {
		numbers := map[string]bool{}
		for _, r := range batch {
			numbers[r.Change.SequenceNumber] = true
			if r.EventName != "INSERT" || len(r.Change.NewImage) == 0 {
				t.Errorf("%s is told of %s", function, r.EventName)
			}
		}
		text, err := json.Marshal(batch)
		if len(numbers) != len(batch) || len(batch) > 100 || len(text) > 6<<20 || err != nil {
			t.Errorf("a batch of %d has %d numbers and %d bytes (%v)", len(batch), len(numbers), len(text), err)
		}
		told[function] += len(batch)
		return nil
	})
	waiting := 0
	for key := range s.then.Items() {
		if audit.IsNew(key) {
			waiting++
		}
	}
	if err != nil || waiting == 0 || told["auditchain"] != waiting {
		t.Errorf("of %d audit records that wait the function is told %v (%v)", waiting, told, err)
	}
}
