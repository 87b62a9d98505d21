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

	"github.com/gatewright/gatewright/shared/fault"
	"github.com/gatewright/gatewright/shared/keys"
	"github.com/gatewright/gatewright/shared/operation/simulations"
	"github.com/gatewright/gatewright/shared/store"
)

// model is what the service should be: a bucket without transactions, indexes,
// overlays or operations.
type model struct {
	exists    bool
	consumers map[string]*modelConsumer
	// dead are texts that open nothing any more.
	dead map[string]bool
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

func (m *model) kill(k modelKey) { m.dead[k.text] = true }

// machine does the same things to the service and to the model.
type machine struct {
	*world
	model model
	texts int
	// inside is whether an action runs in the middle of another's read; before is
	// the model as it was until then, nil where there was none. The other action
	// comes to what it would after it, or finds out from what was before that it
	// can't be made.
	inside bool
	before *model
}

// clone is a copy that does not change with m.
func (m *model) clone() *model {
	c := &model{exists: m.exists, consumers: map[string]*modelConsumer{}, dead: maps.Clone(m.dead)}
	for name, consumer := range m.consumers {
		own := *consumer
		own.keys = slices.Clone(consumer.keys)
		c.consumers[name] = &own
	}
	return c
}

// key gives a key of a consumer, nil for none.
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
	consumerNames = rapid.SampledFrom([]string{"alice", "bob", "carol"})
	tagSets       = rapid.SampledFrom([]map[string]string{nil, {"a": "1"}, {"a": "2", "b": "1"}, {"b": "1"}})
	metadatas     = rapid.SampledFrom([]string{"", `{"m":1}`, `{"m":2}`})
	emails        = rapid.SampledFrom([]string{"x@example.com", "y@example.com"})
)

func (m *machine) expiry(t *rapid.T) *time.Time {
	switch d := rapid.SampledFrom([]time.Duration{0, -time.Hour, time.Minute, 48 * time.Hour}).Draw(t, "expiry"); d {
	case 0:
		return nil
	default:
		return new(m.clock.Now().Add(d))
	}
}

// text draws a custom text now and then: a new one, or one that is dead.
func (m *machine) text(t *rapid.T) string {
	if m.inside {
		return "" // two actions at once want no text of the dead
	}
	switch rapid.IntRange(0, 3).Draw(t, "text") {
	case 0:
		m.texts++
		return fmt.Sprintf("custom-key-number-%04d", m.texts)
	case 1:
		for _, text := range slices.Sorted(maps.Keys(m.model.dead)) {
			if strings.HasPrefix(text, "custom") {
				return text
			}
		}
	}
	return ""
}

// expect gives the consumer that a call is about, nil when there is none; the
// call has to have answered accordingly.
func (m *machine) expect(t *rapid.T, name string, err error) *modelConsumer {
	c := m.model.consumers[name]
	there := m.model.exists && c != nil
	switch {
	case m.late(err):
		return nil
	case fault.Is(err, fault.NotFound) && m.was(func(m *model) bool { return !m.exists || m.consumers[name] == nil }):
		return nil
	case err != nil:
		t.Fatalf("%s is there %v: %v", name, there, err)
	case !there:
		t.Fatalf("%s is not there, and the answer is no fault", name)
	}
	return c
}

func (m *machine) CreateBucket(t *rapid.T) {
	_, err := m.keys.CreateBucket(m.request(), owner, keys.NewBucket{Name: bucket})
	if fault.Is(err, fault.Conflict) && m.was(func(m *model) bool { return m.exists }) {
		return
	}
	if err != nil || m.model.exists {
		t.Fatalf("the bucket exists %v, got %v", m.model.exists, err)
	}
	m.model.exists, m.model.consumers = true, map[string]*modelConsumer{}
}

func (m *machine) DeleteBucket(t *rapid.T) {
	if rapid.IntRange(0, 3).Draw(t, "sure") > 0 {
		t.Skip("not now")
	}
	err := m.keys.DeleteBucket(m.request(), in(bucket))
	if fault.Is(err, fault.NotFound) && m.was(func(m *model) bool { return !m.exists }) {
		return
	}
	if err != nil || !m.model.exists {
		t.Fatalf("the bucket exists %v, got %v", m.model.exists, err)
	}
	for _, c := range m.model.consumers {
		for _, k := range c.keys {
			m.model.kill(k)
		}
	}
	m.model.exists, m.model.consumers = false, nil
}

// at names a consumer by its name, or by an id it has or had.
func (m *machine) at(t *rapid.T, name string) keys.ConsumerAt {
	if c := m.model.consumers[name]; c != nil && rapid.Bool().Draw(t, "byID") {
		return of(c.id)
	}
	return of(name)
}

func (m *machine) CreateConsumer(t *rapid.T) {
	name, tags, metadata := consumerNames.Draw(t, "name"), tagSets.Draw(t, "tags"), metadatas.Draw(t, "metadata")
	withKey, manager := rapid.Bool().Draw(t, "withKey"), emails.Draw(t, "manager")
	made, err := m.keys.CreateConsumer(m.request(), in(bucket), keys.NewConsumer{
		Name: name, Tags: tags, Metadata: json.RawMessage(metadata), WithKey: withKey,
		Managers: []keys.NewManager{{Email: manager, Sub: "s"}},
	})
	switch {
	case m.late(err, made.Keys...):
		return
	case fault.Is(err, fault.NotFound) && m.was(func(m *model) bool { return !m.exists }):
		return
	case fault.Is(err, fault.Conflict) && m.was(func(m *model) bool { return m.exists && m.consumers[name] != nil }):
		return
	case err != nil, !m.model.exists, m.model.consumers[name] != nil:
		t.Fatalf("the bucket exists %v, %s %v, got %v", m.model.exists, name, m.model.consumers[name] != nil, err)
	}
	c := &modelConsumer{id: made.ID, tags: tags, metadata: metadata, managers: []string{manager}}
	for _, k := range made.Keys {
		c.keys = append(c.keys, modelKey{id: k.ID, text: k.Text})
	}
	m.model.consumers[name] = c
}

func (m *machine) UpdateConsumer(t *rapid.T) {
	name := consumerNames.Draw(t, "name")
	var patch keys.ConsumerPatch
	tags, metadata := tagSets.Draw(t, "tags"), metadatas.Draw(t, "metadata")
	setTags, setMetadata := rapid.Bool().Draw(t, "setTags"), rapid.Bool().Draw(t, "setMetadata")
	if setTags {
		patch.Tags = store.PatchTo(tags)
	}
	if setMetadata {
		patch.Metadata = store.PatchTo(json.RawMessage(metadata))
	}
	_, err := m.keys.UpdateConsumer(m.request(), m.at(t, name), patch)
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
	if c := m.expect(t, name, m.keys.DeleteConsumer(m.request(), m.at(t, name))); c != nil {
		for _, k := range c.keys {
			m.model.kill(k)
		}
		delete(m.model.consumers, name)
	}
}

func (m *machine) CreateKey(t *rapid.T) {
	name, n := consumerNames.Draw(t, "name"), keys.NewKey{ExpiresOn: m.expiry(t), Text: m.text(t)}
	made, err := m.keys.CreateKey(m.request(), m.at(t, name), n)
	if m.late(err, made) {
		return
	}
	if c := m.expect(t, name, err); c != nil {
		c.keys = append(c.keys, modelKey{id: made.ID, text: made.Text, expiresOn: n.ExpiresOn})
		delete(m.model.dead, made.Text)
	}
}

func (m *machine) CreateKeys(t *rapid.T) {
	name, n := consumerNames.Draw(t, "name"), rapid.SampledFrom([]int{2, 38, 41, 85}).Draw(t, "n")
	made, err := m.keys.CreateKeys(m.request(), m.at(t, name), make([]keys.NewKey, n))
	if fault.Is(err, fault.Throttled) && m.before != nil {
		t.Skip("too many changes at once")
	}
	if m.late(err, made...) {
		return
	}
	if c := m.expect(t, name, err); c != nil {
		for _, k := range made {
			c.keys = append(c.keys, modelKey{id: k.ID, text: k.Text})
		}
	}
}

func (m *machine) RollKey(t *rapid.T) {
	name := consumerNames.Draw(t, "name")
	expiresOn := m.clock.Now().Add(rapid.SampledFrom([]time.Duration{0, time.Minute, time.Hour}).Draw(t, "in"))
	err := m.keys.RollKey(m.request(), m.at(t, name), expiresOn)
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
	m.memory.Tear(0, nil) // what follows is the model's own look
	newest := m.list(name)[0]
	c.keys = append(c.keys, modelKey{id: newest.ID, text: newest.Text})
}

// one draws a key of a consumer that has some.
func (m *machine) one(t *rapid.T) (name, id string) {
	name = consumerNames.Draw(t, "name")
	c := m.model.consumers[name]
	if c == nil || len(c.keys) == 0 {
		t.Skip("no key")
	}
	return name, c.keys[rapid.IntRange(0, len(c.keys)-1).Draw(t, "key")].id
}

// expectKey is expect for a call that is about a key.
func (m *machine) expectKey(t *rapid.T, name, id string, err error) *modelKey {
	if m.late(err) {
		return nil
	}
	if fault.Is(err, fault.NotFound) && m.was(func(m *model) bool { return m.key(name, id) == nil }) {
		return nil
	}
	k := m.model.key(name, id)
	if err != nil || k == nil {
		t.Fatalf("key %s of %s is there %v: %v", id, name, k != nil, err)
	}
	return k
}

func (m *machine) UpdateKey(t *rapid.T) {
	name, id := m.one(t)
	patch := keys.KeyPatch{Text: m.text(t)}
	expiresOn, set := m.expiry(t), rapid.Bool().Draw(t, "setExpiry")
	if set {
		patch.ExpiresOn = store.Patch[time.Time]{Set: true, Value: expiresOn}
	}
	_, err := m.keys.UpdateKey(m.request(), m.at(t, name), id, patch)
	k := m.expectKey(t, name, id, err)
	if k == nil {
		return
	}
	if set {
		k.expiresOn = expiresOn
	}
	if patch.Text != "" {
		m.model.kill(*k)
		k.text = patch.Text
		delete(m.model.dead, patch.Text)
	}
}

func (m *machine) DeleteKey(t *rapid.T) {
	name, id := m.one(t)
	err := m.keys.DeleteKey(m.request(), m.at(t, name), id)
	k := m.expectKey(t, name, id, err)
	if k == nil {
		return
	}
	m.model.kill(*k)
	c := m.model.consumers[name]
	c.keys = slices.DeleteFunc(c.keys, func(k modelKey) bool { return k.id == id })
}

// Work advances the operations by a step or several.
func (m *machine) Work(t *rapid.T) {
	if !m.inside { // or a change would be of another time than it is
		m.clock.add(rapid.SampledFrom([]time.Duration{0, time.Second, 2 * time.Minute}).Draw(t, "pass"))
	}
	m.Sweep(t)
}

// Sweep is Work at once.
func (m *machine) Sweep(t *rapid.T) {
	if err := m.engine.Sweep(m.Context()); err != nil {
		t.Fatal(err)
	}
}

// Check compares all that a reader and the gateway can see.
func (m *machine) Check(t *rapid.T) {
	got, _, total, err := m.keys.ListConsumers(m.Context(), in(bucket), keys.Filter{}, all, keys.Include{Managers: true})
	if !m.model.exists {
		if !fault.Is(err, fault.NotFound) {
			t.Fatalf("there is no bucket, got %v", err)
		}
		return
	}
	if err != nil || total != len(m.model.consumers) || len(got) != total {
		t.Fatalf("%d consumers, total %d, want %d, %v", len(got), total, len(m.model.consumers), err)
	}
	for _, c := range got {
		want := m.model.consumers[c.Name]
		if want == nil || c.ID != want.id || !maps.Equal(c.Tags, want.tags) || string(c.Metadata) != want.metadata || len(c.Managers) != len(want.managers) {
			t.Fatalf("%s is %+v, want %+v", c.Name, c, want)
		}
		m.checkKeys(t, c.Name, want)
	}
	for _, filter := range []keys.Filter{
		{Tags: map[string]string{"a": "1"}}, {Tags: map[string]string{"a": "2", "b": "1"}}, {ManagerEmail: "X@example.com"},
	} {
		m.checkFilter(t, filter)
	}
	for text := range m.model.dead {
		if _, open := m.opens(text); open {
			t.Fatalf("the dead key %s opens", text)
		}
	}
}

func (m *machine) checkKeys(t *rapid.T, name string, want *modelConsumer) {
	listed := m.list(name)
	if len(listed) != len(want.keys) {
		t.Fatalf("%s has %d keys, want %d", name, len(listed), len(want.keys))
	}
	slices.Reverse(listed)
	for i, k := range listed {
		w := want.keys[i]
		if k.ID != w.id || k.Text != w.text || (k.ExpiresOn == nil) != (w.expiresOn == nil) || k.ExpiresOn != nil && !k.ExpiresOn.Equal(*w.expiresOn) {
			t.Fatalf("%s, key %d is %+v, want %+v", name, i, k, w)
		}
		id, open := m.opens(k.Text)
		if should := w.expiresOn == nil || w.expiresOn.After(m.clock.Now()); open != should {
			t.Fatalf("%s, key %d opens %v, want %v", name, i, open, should)
		}
		if open && (id.Sub != name || string(id.Data) != want.metadata || id.KeyID != w.id) {
			t.Fatalf("%s, key %d: the gateway sees %+v", name, i, id)
		}
	}
}

func (m *machine) checkFilter(t *rapid.T, f keys.Filter) {
	got, _, total, err := m.keys.ListConsumers(m.Context(), in(bucket), f, all, keys.Include{})
	if err != nil {
		t.Fatal(err)
	}
	var want []string
	for name, c := range m.model.consumers {
		matches := f.ManagerEmail == "" || slices.ContainsFunc(c.managers, func(e string) bool { return strings.EqualFold(e, f.ManagerEmail) })
		for k, v := range f.Tags {
			matches = matches && c.tags[k] == v
		}
		if matches {
			want = append(want, name)
		}
	}
	slices.Sort(want)
	var have []string
	for _, c := range got {
		have = append(have, c.Name)
	}
	if !slices.Equal(have, want) || total != len(want) {
		t.Fatalf("%+v finds %v (%d), want %v", f, have, total, want)
	}
}

func TestServiceDoesWhatTheModelDoes(tt *testing.T) {
	simulations.Sequential(tt)
	tt.Parallel()
	rapid.Check(tt, func(t *rapid.T) {
		m := &machine{world: newWorld(tt), model: model{dead: map[string]bool{}}}
		m.CreateBucket(t)
		actions := map[string]func(*rapid.T){
			"CreateBucket": m.CreateBucket, "DeleteBucket": m.DeleteBucket,
			"CreateConsumer": m.CreateConsumer, "UpdateConsumer": m.UpdateConsumer, "DeleteConsumer": m.DeleteConsumer,
			"CreateKey": m.CreateKey, "CreateKeys": m.CreateKeys, "UpdateKey": m.UpdateKey, "DeleteKey": m.DeleteKey,
			"RollKey": m.RollKey, "Work": m.Work, "": m.Check,
		}
		// In half of the runs reads are torn: of changes by any other, of looks at what
		// there is by the operations in the background, which nobody may notice.
		torn, plain := rapid.Bool().Draw(t, "torn"), maps.Clone(actions)
		delete(plain, "")
		work := map[string]func(*rapid.T){"Sweep": m.Sweep}
		for name, action := range actions {
			actions[name] = func(t *rapid.T) {
				m.keys = rapid.SampledFrom(m.instances).Draw(t, "instance")
				switch {
				case torn && (name == "" || name == "Work"):
					defer m.tear(t, work)()
				case torn:
					defer m.tear(t, plain)()
				}
				action(t)
			}
		}
		t.Repeat(actions)
		// In the end nothing is left over but what the model has.
		m.settle()
		m.Check(t)
		if m.model.exists {
			must0(tt, m.keys.DeleteBucket(m.request(), in(bucket)))
		}
		m.settle()
		if left := m.leftovers(); len(left) > 0 {
			t.Fatalf("%d items are left, such as %s", len(left), left[0])
		}
	})
}
