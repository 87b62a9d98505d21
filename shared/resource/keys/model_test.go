package keys_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/gatewright/gatewright/shared/base/fault"
	"github.com/gatewright/gatewright/shared/core/store"
	"github.com/gatewright/gatewright/shared/resource/keys"
	"github.com/gatewright/gatewright/shared/testing/simulations"
)

// model is the expected behavior of the service: a bucket without transactions, indexes, overlays or operations.
type model struct {
	exists    bool
	consumers map[string]*modelConsumer
	// invalidTexts are texts of keys that were deleted or replaced.
	invalidTexts map[string]bool
}

type modelConsumer struct {
	id       string
	tags     map[string]string
	metadata string
	managers []string
	keys     []modelKey // the oldest first
}

type modelKey struct {
	id, text  string
	expiresOn *time.Time
}

func (m *model) invalidate(k modelKey) { m.invalidTexts[k.text] = true }

// machine applies the same actions to the service and to the model, and compares the results.
type machine struct {
	*fixture
	model model
	// texts is the number of custom texts that were used.
	texts int
	// nested is true while a nested action runs: an action that interrupts a read of another action, the outer action.
	// before is a copy of the model from the time before the nested action, or nil if no nested action has run. The outer
	// action must have the result that it would have after the nested action, or the error that it would have before it.
	nested bool
	before *model
}

// clone returns an independent copy of the model.
func (m *model) clone() *model {
	c := &model{exists: m.exists, consumers: map[string]*modelConsumer{}, invalidTexts: maps.Clone(m.invalidTexts)}
	for name, consumer := range m.consumers {
		consumerCopy := *consumer
		consumerCopy.keys = slices.Clone(consumer.keys)
		c.consumers[name] = &consumerCopy
	}
	return c
}

// key returns a key of a consumer, or nil.
func (m *model) key(name, id string) *modelKey {
	c := m.consumers[name]
	if !m.exists || c == nil {
		return nil
	}
	if i := slices.IndexFunc(c.keys, func(k modelKey) bool { return k.id == id }); i >= 0 {
		return &c.keys[i]
	}
	return nil
}

var (
	consumerNames  = rapid.SampledFrom([]string{"alice", "bob", "carol"})
	tagSets        = rapid.SampledFrom([]map[string]string{nil, {"a": "1"}, {"a": "2", "b": "1"}, {"b": "1"}})
	metadataValues = rapid.SampledFrom([]string{"", `{"m":1}`, `{"m":2}`})
	emails         = rapid.SampledFrom([]string{"x@example.com", "y@example.com"})
)

func (m *machine) expiry(t *rapid.T) *time.Time {
	switch d := rapid.SampledFrom([]time.Duration{0, -time.Hour, time.Minute, 48 * time.Hour}).Draw(t, "expiry"); d {
	case 0:
		return nil
	default:
		return new(m.clock.Now().Add(d))
	}
}

// text returns the text for a new key: a new text, the text of an invalid key, or "" for a generated text.
func (m *machine) text(t *rapid.T) string {
	if m.nested {
		return "" // two concurrent actions must not use the same text
	}
	switch rapid.IntRange(0, 3).Draw(t, "text") {
	case 0:
		m.texts++
		return fmt.Sprintf("custom-key-number-%04d", m.texts)
	case 1:
		for _, text := range slices.Sorted(maps.Keys(m.model.invalidTexts)) {
			if strings.HasPrefix(text, "custom") {
				return text
			}
		}
	}
	return ""
}

// expect returns the model's consumer for a successful call, or nil for an expected error and for a change of a bucket
// that was deleted meanwhile. It fails the test if the model does not explain err.
func (m *machine) expect(t *rapid.T, name string, err error) *modelConsumer {
	c := m.model.consumers[name]
	exists := m.model.exists && c != nil
	switch {
	case m.inDeletedBucket(err):
		return nil
	case fault.Is(err, fault.NotFound) && m.holdsNowOrBefore(func(m *model) bool {
		return !m.exists || m.consumers[name] == nil
	}):
		return nil
	case err != nil:
		t.Fatalf("call with consumer %s (exists: %t) error = %v, want none, or %v if the bucket or consumer is missing",
			name, exists, err, fault.NotFound)
	case !exists:
		t.Fatalf("call with missing consumer %s succeeds, want %v", name, fault.NotFound)
	}
	return c
}

func (m *machine) CreateBucket(t *rapid.T) {
	_, err := m.keys.CreateBucket(m.requestContext(), owner, keys.NewBucket{Name: bucket})
	if fault.Is(err, fault.Conflict) && m.holdsNowOrBefore(func(m *model) bool { return m.exists }) {
		return
	}
	if err != nil || m.model.exists {
		t.Fatalf("CreateBucket() error = %v with existing bucket: %t, want success only if no bucket exists",
			err, m.model.exists)
	}
	m.model.exists, m.model.consumers = true, map[string]*modelConsumer{}
}

func (m *machine) DeleteBucket(t *rapid.T) {
	if rapid.IntRange(0, 3).Draw(t, "deletes if 0") > 0 {
		t.Skip("not now")
	}
	err := m.keys.DeleteBucket(m.requestContext(), bucketAt(bucket))
	if fault.Is(err, fault.NotFound) && m.holdsNowOrBefore(func(m *model) bool { return !m.exists }) {
		return
	}
	if err != nil || !m.model.exists {
		t.Fatalf("DeleteBucket() error = %v with existing bucket: %t, want success only if the bucket exists",
			err, m.model.exists)
	}
	for _, c := range m.model.consumers {
		for _, k := range c.keys {
			m.model.invalidate(k)
		}
	}
	m.model.exists, m.model.consumers = false, nil
}

// drawRef identifies a consumer by its name or by its id.
func (m *machine) drawRef(t *rapid.T, name string) keys.ConsumerLocator {
	if c := m.model.consumers[name]; c != nil && rapid.Bool().Draw(t, "byID") {
		return consumerAt(c.id)
	}
	return consumerAt(name)
}

func (m *machine) CreateConsumer(t *rapid.T) {
	name, tags, metadata := consumerNames.Draw(t, "name"), tagSets.Draw(t, "tags"), metadataValues.Draw(t, "metadata")
	withKey, manager := rapid.Bool().Draw(t, "withKey"), emails.Draw(t, "manager")
	created, err := m.keys.CreateConsumer(m.requestContext(), bucketAt(bucket), keys.NewConsumer{
		Name: name, Tags: tags, Metadata: json.RawMessage(metadata), WithKey: withKey,
		Managers: []keys.NewManager{{Email: manager, Sub: "s"}},
	})
	switch {
	case m.inDeletedBucket(err, created.Keys...):
		return
	case fault.Is(err, fault.NotFound) && m.holdsNowOrBefore(func(m *model) bool { return !m.exists }):
		return
	case fault.Is(err, fault.Conflict) && m.holdsNowOrBefore(func(m *model) bool {
		return m.exists && m.consumers[name] != nil
	}):
		return
	case err != nil, !m.model.exists, m.model.consumers[name] != nil:
		t.Fatalf("CreateConsumer(%s) error = %v with existing bucket: %t, existing consumer: %t, "+
			"want success only if the bucket exists and the consumer does not",
			name, err, m.model.exists, m.model.consumers[name] != nil)
	}
	c := &modelConsumer{id: created.ID, tags: tags, metadata: metadata, managers: []string{manager}}
	for _, k := range created.Keys {
		c.keys = append(c.keys, modelKey{id: k.ID, text: k.Text})
	}
	m.model.consumers[name] = c
}

func (m *machine) UpdateConsumer(t *rapid.T) {
	name := consumerNames.Draw(t, "name")
	var patch keys.ConsumerPatch
	tags, metadata := tagSets.Draw(t, "tags"), metadataValues.Draw(t, "metadata")
	setTags, setMetadata := rapid.Bool().Draw(t, "setTags"), rapid.Bool().Draw(t, "setMetadata")
	if setTags {
		patch.Tags = store.PatchTo(tags)
	}
	if setMetadata {
		patch.Metadata = store.PatchTo(json.RawMessage(metadata))
	}
	_, err := m.keys.UpdateConsumer(m.requestContext(), m.drawRef(t, name), patch)
	if c := m.expect(t, name, err); c != nil {
		if setTags {
			c.tags = tags
		}
		if setMetadata {
			c.metadata = metadata
		}
	}
}

func (m *machine) DeleteConsumer(t *rapid.T) {
	name := consumerNames.Draw(t, "name")
	if c := m.expect(t, name, m.keys.DeleteConsumer(m.requestContext(), m.drawRef(t, name))); c != nil {
		for _, k := range c.keys {
			m.model.invalidate(k)
		}
		delete(m.model.consumers, name)
	}
}

func (m *machine) CreateKey(t *rapid.T) {
	name, n := consumerNames.Draw(t, "name"), keys.NewKey{ExpiresOn: m.expiry(t), Text: m.text(t)}
	created, err := m.keys.CreateKey(m.requestContext(), m.drawRef(t, name), n)
	if m.inDeletedBucket(err, created) {
		return
	}
	if c := m.expect(t, name, err); c != nil {
		c.keys = append(c.keys, modelKey{id: created.ID, text: created.Text, expiresOn: n.ExpiresOn})
		delete(m.model.invalidTexts, created.Text)
	}
}

func (m *machine) CreateKeys(t *rapid.T) {
	name, n := consumerNames.Draw(t, "name"), rapid.SampledFrom([]int{2, 38, 41, 85}).Draw(t, "number of keys")
	created, err := m.keys.CreateKeys(m.requestContext(), m.drawRef(t, name), make([]keys.NewKey, n))
	if fault.Is(err, fault.Throttled) && m.before != nil {
		t.Skip("too many changes at once")
	}
	if m.inDeletedBucket(err, created...) {
		return
	}
	if c := m.expect(t, name, err); c != nil {
		for _, k := range created {
			c.keys = append(c.keys, modelKey{id: k.ID, text: k.Text})
		}
	}
}

func (m *machine) RollKey(t *rapid.T) {
	name := consumerNames.Draw(t, "name")
	expiresOn := m.clock.Now().Add(rapid.SampledFrom([]time.Duration{0, time.Minute, time.Hour}).Draw(t, "expires in"))
	err := m.keys.RollKey(m.requestContext(), m.drawRef(t, name), expiresOn)
	if fault.Is(err, fault.Throttled) {
		t.Skip("too many large changes")
	}
	c := m.expect(t, name, err)
	if c == nil {
		return
	}
	for i := range c.keys {
		if c.keys[i].expiresOn == nil {
			c.keys[i].expiresOn = &expiresOn
		}
	}
	m.memory.Tear(0, nil) // the following reads belong to the test, not to the action
	newest := m.listKeys(name)[0]
	c.keys = append(c.keys, modelKey{id: newest.ID, text: newest.Text})
}

// drawKey draws a key of a consumer that has keys.
func (m *machine) drawKey(t *rapid.T) (name, id string) {
	name = consumerNames.Draw(t, "name")
	c := m.model.consumers[name]
	if c == nil || len(c.keys) == 0 {
		t.Skip("no key")
	}
	return name, c.keys[rapid.IntRange(0, len(c.keys)-1).Draw(t, "key")].id
}

// expectKey works like expect for a call with a key.
func (m *machine) expectKey(t *rapid.T, name, id string, err error) *modelKey {
	if m.inDeletedBucket(err) {
		return nil
	}
	if fault.Is(err, fault.NotFound) && m.holdsNowOrBefore(func(m *model) bool { return m.key(name, id) == nil }) {
		return nil
	}
	k := m.model.key(name, id)
	if err != nil || k == nil {
		t.Fatalf("call with key %s of %s (exists: %t) error = %v, want success with an existing key",
			id, name, k != nil, err)
	}
	return k
}

func (m *machine) UpdateKey(t *rapid.T) {
	name, id := m.drawKey(t)
	patch := keys.KeyPatch{Text: m.text(t)}
	expiresOn, set := m.expiry(t), rapid.Bool().Draw(t, "setExpiry")
	if set {
		patch.ExpiresOn = store.Patch[time.Time]{Set: true, Value: expiresOn}
	}
	_, err := m.keys.UpdateKey(m.requestContext(), m.drawRef(t, name), id, patch)
	k := m.expectKey(t, name, id, err)
	if k == nil {
		return
	}
	if set {
		k.expiresOn = expiresOn
	}
	if patch.Text != "" {
		m.model.invalidate(*k)
		k.text = patch.Text
		delete(m.model.invalidTexts, patch.Text)
	}
}

func (m *machine) DeleteKey(t *rapid.T) {
	name, id := m.drawKey(t)
	err := m.keys.DeleteKey(m.requestContext(), m.drawRef(t, name), id)
	k := m.expectKey(t, name, id, err)
	if k == nil {
		return
	}
	m.model.invalidate(*k)
	c := m.model.consumers[name]
	c.keys = slices.DeleteFunc(c.keys, func(k modelKey) bool { return k.id == id })
}

// Work advances the clock by a random time, unless it is nested, and then runs the operations that are due.
func (m *machine) Work(t *rapid.T) {
	if !m.nested { // the outer action has already read the clock
		m.clock.add(rapid.SampledFrom([]time.Duration{0, time.Second, 2 * time.Minute}).Draw(t, "time"))
	}
	m.Sweep(t)
}

// Sweep runs the operations that are due.
func (m *machine) Sweep(t *rapid.T) {
	if err := m.engine.Sweep(m.Context()); err != nil {
		t.Fatal(err)
	}
}

// Check compares the consumers and keys of an existing bucket, as readers and the gateway see them, with the model. It
// compares the number of managers, and their emails only with a filter. A missing bucket must not be found.
func (m *machine) Check(t *rapid.T) {
	got, _, total, err := m.keys.ListConsumers(m.Context(), bucketAt(bucket), keys.Filter{}, all,
		keys.Include{Managers: true})
	if !m.model.exists {
		if !fault.Is(err, fault.NotFound) {
			t.Fatalf("ListConsumers(missing bucket) error = %v, want %v", err, fault.NotFound)
		}
		return
	}
	if err != nil || total != len(m.model.consumers) || len(got) != total {
		t.Fatalf("ListConsumers() = %d consumers, total %d, %v, want %d and no error",
			len(got), total, err, len(m.model.consumers))
	}
	for _, c := range got {
		want, exists := m.model.consumers[c.Name]
		if !exists {
			t.Fatalf("consumer %s is listed, want it missing", c.Name)
		}
		if c.ID != want.id || len(c.Managers) != len(want.managers) {
			t.Fatalf("consumer %s = ID %s, %d managers, want ID %s, %d managers",
				c.Name, c.ID, len(c.Managers), want.id, len(want.managers))
		}
		if !maps.Equal(c.Tags, want.tags) || string(c.Metadata) != want.metadata {
			t.Fatalf("consumer %s = tags %v, metadata %s, want %v, %s", c.Name, c.Tags, c.Metadata, want.tags, want.metadata)
		}
		m.checkKeys(t, c.Name, want)
	}
	for _, filter := range []keys.Filter{
		{Tags: map[string]string{"a": "1"}}, {Tags: map[string]string{"a": "2", "b": "1"}}, {ManagerEmail: "X@example.com"},
	} {
		m.checkFilter(t, filter)
	}
	for text := range m.model.invalidTexts {
		if _, accepted := m.verifyKey(text); accepted {
			t.Fatalf("invalid key %s is accepted, want it refused", text)
		}
	}
}

func (m *machine) checkKeys(t *rapid.T, name string, want *modelConsumer) {
	listed := m.listKeys(name)
	if len(listed) != len(want.keys) {
		t.Fatalf("%s has %d keys, want %d", name, len(listed), len(want.keys))
	}
	slices.Reverse(listed)
	for i, k := range listed {
		wantKey := want.keys[i]
		if k.ID != wantKey.id || k.Text != wantKey.text || (k.ExpiresOn == nil) != (wantKey.expiresOn == nil) ||
			k.ExpiresOn != nil && !k.ExpiresOn.Equal(*wantKey.expiresOn) {
			t.Fatalf("key %d of %s = %s, text %q, expiry %v, want %s, text %q, expiry %v",
				i, name, k.ID, k.Text, k.ExpiresOn, wantKey.id, wantKey.text, wantKey.expiresOn)
		}
		id, accepted := m.verifyKey(k.Text)
		if wantAccepted := wantKey.expiresOn == nil || wantKey.expiresOn.After(m.clock.Now()); accepted != wantAccepted {
			t.Fatalf("%s, key %d: accepted = %v, want %v", name, i, accepted, wantAccepted)
		}
		if accepted && (id.Sub != name || string(id.Data) != want.metadata || id.KeyID != wantKey.id) {
			t.Fatalf("%s, key %d: verified as subject %s, metadata %s, key %s, want subject %[1]s, metadata %[6]s, key %[7]s",
				name, i, id.Sub, id.Data, id.KeyID, want.metadata, wantKey.id)
		}
	}
}

func (m *machine) checkFilter(t *rapid.T, f keys.Filter) {
	got, _, total, err := m.keys.ListConsumers(m.Context(), bucketAt(bucket), f, all, keys.Include{})
	if err != nil {
		t.Fatal(err)
	}
	var want []string
	for name, c := range m.model.consumers {
		matches := f.ManagerEmail == "" || slices.ContainsFunc(c.managers, func(e string) bool {
			return strings.EqualFold(e, f.ManagerEmail)
		})
		for k, v := range f.Tags {
			matches = matches && c.tags[k] == v
		}
		if matches {
			want = append(want, name)
		}
	}
	slices.Sort(want)
	var names []string
	for _, c := range got {
		names = append(names, c.Name)
	}
	if !slices.Equal(names, want) || total != len(want) {
		t.Fatalf("ListConsumers(%+v) = %v (%d), want %v", f, names, total, want)
	}
}

func TestServiceMatchesModel(tt *testing.T) {
	simulations.SkipUnderRace(tt)
	tt.Parallel()
	rapid.Check(tt, func(t *rapid.T) {
		m := &machine{fixture: newFixture(tt), model: model{invalidTexts: map[string]bool{}}}
		m.CreateBucket(t)
		actions := map[string]func(*rapid.T){
			"CreateBucket": m.CreateBucket, "DeleteBucket": m.DeleteBucket,
			"CreateConsumer": m.CreateConsumer, "UpdateConsumer": m.UpdateConsumer, "DeleteConsumer": m.DeleteConsumer,
			"CreateKey": m.CreateKey, "CreateKeys": m.CreateKeys, "UpdateKey": m.UpdateKey, "DeleteKey": m.DeleteKey,
			"RollKey": m.RollKey, "Work": m.Work, "": m.Check,
		}
		// In half of the runs, another action interrupts reads. Any action except Check can interrupt the reads of a
		// change. Only Sweep, whose effects must be invisible, can interrupt the reads of Check and Work.
		interruptReads, interruptingActions := rapid.Bool().Draw(t, "interrupt reads"), maps.Clone(actions)
		delete(interruptingActions, "")
		sweepOnly := map[string]func(*rapid.T){"Sweep": m.Sweep}
		for name, action := range actions {
			actions[name] = func(t *rapid.T) {
				m.keys = rapid.SampledFrom(m.instances).Draw(t, "instance")
				switch {
				case interruptReads && (name == "" || name == "Work"):
					defer m.tear(t, sweepOnly)()
				case interruptReads:
					defer m.tear(t, interruptingActions)()
				}
				action(t)
			}
		}
		t.Repeat(actions)
		// When all operations have ended, the table must contain only the data of the model.
		m.finishOperations()
		m.Check(t)
		if m.model.exists {
			noError(tt, m.keys.DeleteBucket(m.requestContext(), bucketAt(bucket)))
		}
		m.finishOperations()
		if leftover := m.leftovers(); len(leftover) > 0 {
			t.Fatalf("%d items remain, such as %s, want 0", len(leftover), leftover[0])
		}
	})
}
