package operationtest

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/gatewright/gatewright/shared/operation"
	"github.com/gatewright/gatewright/shared/store"
)

// outcome is what a run is judged by.
type outcome struct {
	items      map[store.Key]store.Item // without the operations
	operations map[string]ending
	outside    any
}

// ending is what clients see of an operation in the end.
type ending struct {
	status        operation.Status
	state         string
	message, data string
}

// outcome looks at the world as it is now.
func (s *simulation) outcome() outcome {
	o := outcome{items: s.memory.Items(), operations: map[string]ending{}}
	for key, item := range o.items {
		if id, ok := operation.IDOf(key); ok {
			delete(o.items, key)
			r, err := s.undisturbed.Engine.Read(s.ctx, id)
			if err != nil {
				continue
			}
			var data json.RawMessage
			if err := r.DecodeData(&data); err != nil {
				data = []byte(err.Error())
			}
			o.operations[id] = ending{r.Status, r.State, r.Message, string(data)}
			continue
		}
		kept := maps.Clone(item)
		for _, name := range s.scenario.Ignore {
			delete(kept, name)
		}
		o.items[key] = kept
	}
	if s.scenario.Outside != nil {
		o.outside = s.scenario.Outside()
	}
	return o
}

// compare judges a run by the undisturbed one.
func (r result) compare(reference result, p plan) *WrongRunError {
	want := reference.after
	if r.acted { // what a request begins may end in another way: only its effects count
		want.operations = r.before.operations
		for id := range want.operations {
			want.operations[id] = reference.after.operations[id]
		}
	}
	if r.refused {
		want = r.before
	}
	wrong := r.after.differs(want)
	if wrong != "" && r.acted && !r.acknowledged && !r.refused {
		if r.after.differs(r.before) == "" {
			return nil
		}
		wrong = "the request was carried out in part: " + wrong
	}
	if wrong == "" {
		return nil
	}
	return &WrongRunError{Seed: p.String(), Reason: wrong, Trace: r.trace}
}

// differs says in what o is not as it should be, "" for nothing.
func (o outcome) differs(want outcome) string {
	var out []string
	for id, w := range want.operations {
		if got := o.operations[id]; got != w {
			out = append(out, fmt.Sprintf("operation %s: %+v, undisturbed %+v", id, got, w))
		}
	}
	keys := map[store.Key]bool{}
	for k := range o.items {
		keys[k] = true
	}
	for k := range want.items {
		keys[k] = true
	}
	for k := range keys {
		if !reflect.DeepEqual(o.items[k], want.items[k]) {
			out = append(out, fmt.Sprintf("item %s %s: %s, undisturbed %s", k.PK, k.SK, show(o.items[k]), show(want.items[k])))
		}
	}
	if !reflect.DeepEqual(o.outside, want.outside) {
		out = append(out, fmt.Sprintf("outside: %v, undisturbed %v", o.outside, want.outside))
	}
	slices.Sort(out)
	const most = 10
	if len(out) > most {
		out = append(out[:most], fmt.Sprintf("and %d more", len(out)-most))
	}
	return strings.Join(out, "\n")
}

func show(item store.Item) string {
	if item == nil {
		return "absent"
	}
	text, err := json.Marshal(item)
	if err != nil {
		return err.Error()
	}
	return string(text)
}
