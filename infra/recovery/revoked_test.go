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

	"github.com/gatewright/gatewright/shared/base/ids"
	"github.com/gatewright/gatewright/shared/core/audit"
	"github.com/gatewright/gatewright/shared/core/auth"
	"github.com/gatewright/gatewright/shared/core/blob"
	"github.com/gatewright/gatewright/shared/core/config"
	"github.com/gatewright/gatewright/shared/core/installation"
	"github.com/gatewright/gatewright/shared/core/operation"
	"github.com/gatewright/gatewright/shared/core/store"
	"github.com/gatewright/gatewright/shared/core/store/memory"
	"github.com/gatewright/gatewright/shared/core/store/rootkey"
	"github.com/gatewright/gatewright/shared/core/store/rootkey/rootkeytest"
	"github.com/gatewright/gatewright/shared/core/store/storetest"
	"github.com/gatewright/gatewright/shared/resource/accounts"
	"github.com/gatewright/gatewright/shared/resource/keys"
	"github.com/gatewright/gatewright/shared/resource/tunnels"
	"github.com/gatewright/gatewright/shared/runtime/durable"
)

// scenario is an installation with two states of its table: earlier is the state at the restored moment, and current is
// the state now.
type scenario struct {
	earlier, current *memory.Backend
	earlierExpiry    time.Time
	moment           time.Time
	// kms has the KMS keys that wrap the root keys of both tables.
	kms *rootkeytest.KMS
}

// partsOver returns the parts of an installation whose table is b, and whose bucket is empty.
func partsOver(t *testing.T, b *memory.Backend, kms *rootkeytest.KMS, now func() time.Time) installation.Parts {
	table := storetest.NewWithBackend(t, b, storetest.Clock(now))
	return installation.Parts{
		Config: config.Config{Relay: "https://relay.test"}, Table: table, Bucket: blob.NewMemory(now),
		Key:    rootkey.New(kms, "key", table, now),
		Random: rand.Reader, IDs: ids.NewSource(rand.Reader, now), Now: now, Log: slog.New(slog.DiscardHandler),
	}
}

// rotateRootKey rotates the root key of a table until a stage of the rotation, or to its end if stage is "".
func rotateRootKey(t *testing.T, b *memory.Backend, kms *rootkeytest.KMS, stage string) {
	t.Helper()
	now := time.Now()
	parts := func() installation.Parts { return partsOver(t, b, kms, func() time.Time { return now }) }
	rotation, err := durable.Rotation(parts()).Start(t.Context(), "auditor")
	for n := 0; err == nil && rotation.EndedOn == nil && (stage == "" || rotation.Stage != stage); n++ {
		if n > 100 {
			t.Fatalf("rotation after %d steps = %+v, want the stage %q", n, rotation, stage)
		}
		now = now.Add(time.Hour)
		var engine *operation.Engine
		if engine, err = durable.Engine(parts()); err == nil {
			err = engine.Sweep(t.Context())
		}
		if err == nil {
			rotation, err = durable.Rotation(parts()).Status(t.Context())
		}
	}
	if err != nil {
		t.Fatal(err)
	}
}

// restoreTime returns the time at which the restore runs.
func restoreTime() time.Time { return time.Now().Add(time.Minute) }

// newScenario returns a scenario. Before the moment, the root key was rotated: for each element of rotatedTo, until the
// rotation reached this stage, or ended if the stage is "". Since the moment, a credential of each kind was revoked, a
// consumer key got an earlier expiry, another consumer key was created, and others did not change.
func newScenario(t *testing.T, rotatedTo ...string) scenario {
	t.Helper()
	s := scenario{
		current: memory.New(), earlierExpiry: store.Instant(time.Now().Add(time.Hour)),
		kms: rootkeytest.New("key"),
	}
	p := partsOver(t, s.current, s.kms, time.Now)
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	a, _, err := accounts.Open(p).Create(t.Context(), "demo")
	must(err)
	owner := auth.Owner{AccountID: a.ID, Account: a.Name, Viewer: auth.Principal{
		AccountID: a.ID, AccountName: a.Name,
		Permissions: auth.Full(),
	}}
	auditContext := func(action audit.Action) context.Context {
		return audit.WithRequest(t.Context(), &audit.Request{
			AccountID: a.ID, Action: action, RequestID: p.IDs.UUID(),
			Time: p.Now(),
		})
	}
	leaver, _, err := accounts.Open(p).CreateKey(t.Context(), "demo",
		accounts.Spec{Label: "leaver", Permissions: auth.Full()})
	must(err)
	bucket := keys.BucketLocator{Owner: owner, Bucket: "consumers"}
	_, err = keys.Open(p).CreateBucket(auditContext("key-bucket.create"), owner, keys.NewBucket{Name: bucket.Bucket})
	must(err)
	keyIDs := map[string]string{}
	for _, name := range []string{"stays", "revoked", "rolled"} {
		_, err := keys.Open(p).CreateConsumer(auditContext("consumer.create"), bucket, keys.NewConsumer{Name: name})
		must(err)
		k, err := keys.Open(p).CreateKey(auditContext("api-key.create"),
			keys.ConsumerLocator{BucketLocator: bucket, Consumer: name}, keys.NewKey{})
		must(err)
		keyIDs[name] = k.ID
	}
	office, err := tunnels.Open(p).Create(auditContext("tunnel.create"), owner, "office")
	must(err)
	_, err = tunnels.Open(p).Create(auditContext("tunnel.create"), owner, "stays")
	must(err)

	for _, stage := range rotatedTo {
		rotateRootKey(t, s.current, s.kms, stage)
		p = partsOver(t, s.current, s.kms, time.Now)
	}
	s.earlier, s.moment = s.current.Clone(), time.Now()

	must(accounts.Open(p).RevokeKey(t.Context(), "demo", leaver.ID, false))
	must(keys.Open(p).DeleteKey(auditContext("api-key.delete"),
		keys.ConsumerLocator{BucketLocator: bucket, Consumer: "revoked"}, keyIDs["revoked"]))
	_, err = keys.Open(p).UpdateKey(auditContext("api-key.update"),
		keys.ConsumerLocator{BucketLocator: bucket, Consumer: "rolled"}, keyIDs["rolled"],
		keys.KeyPatch{ExpiresOn: store.PatchTo(s.earlierExpiry)})
	must(err)
	_, err = tunnels.Open(p).Rotate(auditContext("tunnel.rotate-token"), owner, office.ID)
	must(err)
	_, err = keys.Open(p).CreateKey(auditContext("api-key.create"),
		keys.ConsumerLocator{BucketLocator: bucket, Consumer: "stays"}, keys.NewKey{})
	must(err)
	return s
}

// newWork returns a run of the command with the two tables of a scenario: "restored" has the earlier state, and
// "damaged" has the current state.
func (s scenario) newWork(t *testing.T, out io.Writer, revived string) *work {
	w := &work{
		request: request{revivedPolicy: revived}, console: console{strings.NewReader(""), out, io.Discard},
		now: restoreTime,
	}
	backends := map[string]*memory.Backend{"restored": s.earlier, "damaged": s.current}
	w.openInstallation = func(table string) installation.Parts { return partsOver(t, backends[table], s.kms, restoreTime) }
	w.scan = func(_ context.Context, table string, visit func(store.Item) error) error {
		for _, item := range backends[table].Items() {
			if err := visit(item); err != nil {
				return err
			}
		}
		return nil
	}
	return w
}

// handleRevived runs the part of the command that handles revived credentials.
func (s scenario) handleRevived(t *testing.T, p plan, revived string) (out string, err error) {
	t.Helper()
	var b bytes.Buffer
	w := s.newWork(t, &b, revived)
	restored, err := w.survey(t.Context(), p.target)
	if err != nil {
		t.Fatal(err)
	}
	err = w.handleRevived(t.Context(), p, restored, s.moment)
	return b.String(), err
}

// TestRevivedCredentialsAreListedAndNeedADecision checks that exactly the credentials that were revoked or shortened
// since the moment are listed, and that the operator must choose what to do with them.
func TestRevivedCredentialsAreListedAndNeedADecision(t *testing.T) {
	s := newScenario(t)
	out, err := s.handleRevived(t, testPlan(), "")
	if err == nil || !strings.Contains(err.Error(), "4 keys and tokens") ||
		!strings.Contains(err.Error(), "REVIVED=revoke") {
		t.Errorf("handleRevived(no decision) = %v, want 4 keys and tokens and REVIVED=revoke", err)
	}
	var kinds []string
	for line := range strings.Lines(out) {
		switch {
		case strings.HasPrefix(line, "account key ") && strings.Contains(line, `("leaver") of demo`):
			kinds = append(kinds, "account key")
		case strings.Contains(line, `of the consumer "revoked" in the bucket "consumers"`) &&
			strings.Contains(line, "had ended since"):
			kinds = append(kinds, "deleted")
		case strings.Contains(line, `of the consumer "rolled"`) &&
			strings.Contains(line, "was to end on "+s.earlierExpiry.Format(time.RFC3339)):
			kinds = append(kinds, "rolled")
		case strings.HasPrefix(line, "tunnel token of the tunnel "):
			kinds = append(kinds, "tunnel")
		default:
			kinds = append(kinds, line)
		}
	}
	slices.Sort(kinds)
	if want := []string{"account key", "deleted", "rolled", "tunnel"}; !slices.Equal(kinds, want) {
		t.Errorf("handleRevived(no decision) lists %q, want %q", kinds, want)
	}
}

// TestRootKeyRotationRevivesNoCredential checks restores across rotations of the root key. A rotation changes the
// hashes of API keys and tunnel tokens, which must not look like revocations: only the four credentials of newScenario
// are revived. The moment, or the time of the restore, can be during a rotation. If the root keys of both tables were
// rotated independently, the tables cannot be compared.
func TestRootKeyRotationRevivesNoCredential(t *testing.T) {
	for name, c := range map[string]struct {
		// before and since have the stage that each rotation before and since the moment reaches, "" for its end.
		before, since []string
	}{
		"rotation after the moment":             {since: []string{""}},
		"two rotations after the moment":        {since: []string{"", ""}},
		"rotation in progress":                  {since: []string{"hold"}},
		"moment during a rotation":              {before: []string{"renew"}},
		"moment at the end of a rotation":       {before: []string{"settle"}},
		"rotations before and after the moment": {before: []string{""}, since: []string{""}},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScenario(t, c.before...)
			for _, stage := range c.since {
				rotateRootKey(t, s.current, s.kms, stage)
			}
			out, err := s.handleRevived(t, testPlan(), "")
			if err == nil || !strings.Contains(err.Error(), "4 keys and tokens") {
				t.Errorf("handleRevived(no decision) = %v, want 4 keys and tokens; output\n%s", err, out)
			}
			if _, err := s.handleRevived(t, testPlan(), revoke); err != nil {
				t.Fatal(err)
			}
			if out, err := s.handleRevived(t, testPlan(), ""); err != nil || out != "" {
				t.Errorf("handleRevived() after the revocation = %v with the output %q, want neither", err, out)
			}
		})
	}
	t.Run("rotations apart from each other", func(t *testing.T) {
		s := newScenario(t)
		rotateRootKey(t, s.current, s.kms, "")
		rotateRootKey(t, s.earlier, s.kms, "")
		for revived, ok := range map[string]bool{"": false, revoke: false, keep: true} {
			out, err := s.handleRevived(t, testPlan(), revived)
			if (err == nil) != ok || out != "" || err != nil && (!strings.Contains(err.Error(), "rotated apart") ||
				strings.Contains(err.Error(), "\n")) {
				t.Errorf("handleRevived(%q) = %v with the output %q, want success: %v, otherwise one line with \"rotated apart\"",
					revived, err, out, ok)
			}
		}
	})
}

// TestRevivedCredentialsAreRevoked checks that revived credentials are revoked, or get their earlier expiry again, with
// a record in the account's audit log. A second run must change nothing.
func TestRevivedCredentialsAreRevoked(t *testing.T) {
	s := newScenario(t)
	pending := func() (n int) {
		for key := range s.earlier.Items() {
			if audit.IsPending(key) {
				n++
			}
		}
		return n
	}
	before := pending()
	if _, err := s.handleRevived(t, testPlan(), revoke); err != nil {
		t.Fatal(err)
	}
	if n := pending() - before; n != 4 {
		t.Errorf("the revocation adds %d audit records, want 4", n)
	}
	if out, err := s.handleRevived(t, testPlan(), ""); err != nil || out != "" {
		t.Errorf("handleRevived() after the revocation = %v with the output %q, want neither", err, out)
	}
	w := s.newWork(t, io.Discard, "")
	restored, err := w.survey(t.Context(), "restored")
	if err != nil {
		t.Fatal(err)
	}
	kinds := map[string]int{}
	for _, c := range restored.credentials {
		kinds[c.kind]++
		if c.kind == consumerKey && c.consumer == "rolled" && (c.expiresOn == nil || !c.expiresOn.Equal(s.earlierExpiry)) {
			t.Errorf("key \"rolled\" expires on %v, want %v", c.expiresOn, s.earlierExpiry)
		}
	}
	if kinds[accountKey] != 1 || kinds[consumerKey] != 2 || kinds[tunnelToken] != 2 {
		t.Errorf("credentials that remain = %v, want 1 account key, 2 consumer keys and 2 tunnel tokens", kinds)
	}
}

// TestKeptCredentialsAreListed checks that credentials are listed if they are kept. It also checks that a deleted
// source table requires the policy keep, unless the backup has the table's last state.
func TestKeptCredentialsAreListed(t *testing.T) {
	s := newScenario(t)
	if out, err := s.handleRevived(t, testPlan(), keep); err != nil || strings.Count(out, "\n") != 4 {
		t.Errorf("handleRevived(keep) = %v with the output %q, want no error and 4 lines", err, out)
	}
	withoutSource := testPlan()
	withoutSource.sourceExists, withoutSource.backup = false,
		"arn:aws:dynamodb:eu-west-1:000000000000:table/damaged/backup/1"
	for revived, ok := range map[string]bool{"": false, revoke: false, keep: true} {
		if _, err := s.handleRevived(t, withoutSource, revived); (err == nil) != ok {
			t.Errorf("without the source table handleRevived(%q) = %v, want success: %v", revived, err, ok)
		}
	}
	withoutSource.isFinal = true
	if _, err := s.handleRevived(t, withoutSource, ""); err != nil {
		t.Errorf("handleRevived(the last backup) = %v, want no error", err)
	}
}

// TestStreamRecordsAreReplayed checks that each record is delivered as an inserted item, in batches that Lambda
// accepts. It also checks that all pending audit records are delivered to the function that chains them.
func TestStreamRecordsAreReplayed(t *testing.T) {
	s := newScenario(t)
	w := s.newWork(t, io.Discard, "")
	delivered := map[string]int{}
	err := w.eachStreamBatch(t.Context(), "restored",
		func(_ context.Context, function string, batch []events.DynamoDBEventRecord) error {
			numbers := map[string]bool{}
			for _, r := range batch {
				numbers[r.Change.SequenceNumber] = true
				if r.EventName != "INSERT" || len(r.Change.NewImage) == 0 {
					t.Errorf("record for %s: event %s with %d attributes, want INSERT and some", function, r.EventName,
						len(r.Change.NewImage))
				}
			}
			text, err := json.Marshal(batch)
			if len(numbers) != len(batch) || len(batch) > 100 || len(text) > 6<<20 || err != nil {
				t.Errorf("batch of %d records has %d numbers and %d bytes, error %v, want unique numbers, at most 100 and 6 MiB",
					len(batch), len(numbers), len(text), err)
			}
			delivered[function] += len(batch)
			return nil
		})
	pending := 0
	for key := range s.earlier.Items() {
		if audit.IsPending(key) {
			pending++
		}
	}
	if err != nil || pending == 0 || delivered["auditchain"] != pending {
		t.Errorf("delivered records by function = %v, error %v, want %d for auditchain, at least 1, and no error", delivered,
			err, pending)
	}
}
