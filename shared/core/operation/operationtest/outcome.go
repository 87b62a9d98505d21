package operationtest

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/gatewright/gatewright/shared/core/operation"
	"github.com/gatewright/gatewright/shared/core/store"
)

// outcome is the final state of a run, which is compared with the state after the undisturbed run.
type outcome struct {
	items      map[store.Key]store.Item // without the operations' records
	operations map[string]operationState
	external   any
}

// operationState is the part of an operation's final record that must be the same in all runs.
type operationState struct {
	status        operation.Status
	state         string
	message, data string
}

// outcome returns the current state.
func (s *simulation) outcome() outcome {
	o := outcome{items: s.memory.Items(), operations: map[string]operationState{}}
	for key, item := range o.items {
		if id, ok := operation.IDOf(key); ok {
			delete(o.items, key)
			r, err := s.observer.Engine.Read(s.ctx, id)
			if err != nil {
				continue
			}
			var data json.RawMessage
			if err := r.DecodeData(&data); err != nil {
				data = []byte(err.Error())
			}
			o.operations[id] = operationState{r.Status, r.State, r.Message, string(data)}
			continue
		}
		filtered := maps.Clone(item)
		for _, name := range s.scenario.Ignore {
			delete(filtered, name)
		}
		o.items[key] = filtered
	}
	if s.scenario.External != nil {
		o.external = s.scenario.External()
	}
	return o
}

// compare returns an error if the run ended differently from reference, which is the undisturbed run. A run with a
// request that had no effect must have the state before the request instead, unless the request returned nil.
func (r result) compare(reference result, p plan) *WrongRunError {
	want := reference.after
	if r.hasRequest { // operations that a request begins may end differently, so compare only their effects
		want.operations = r.before.operations
		for id := range want.operations {
			want.operations[id] = reference.after.operations[id]
		}
	}
	if r.refused {
		want = r.before
	}
	problem := r.after.diff(want)
	if problem != "" && r.hasRequest && !r.acknowledged && !r.refused {
		if r.after.diff(r.before) == "" {
			return nil
		}
		problem = "the request was carried out in part: " + problem
	}
	if problem == "" {
		return nil
	}
	return &WrongRunError{Seed: p.String(), Reason: problem, Trace: r.trace}
}

// diff describes the differences between o and want, "" if there are none.
func (o outcome) diff(want outcome) string {
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
			out = append(out, fmt.Sprintf("item %s %s: %s, undisturbed %s", k.PK, k.SK, formatItem(o.items[k]),
				formatItem(want.items[k])))
		}
	}
	if !reflect.DeepEqual(o.external, want.external) {
		out = append(out, fmt.Sprintf("outside: %v, undisturbed %v", o.external, want.external))
	}
	slices.Sort(out)
	const limit = 10
	if len(out) > limit {
		out = append(out[:limit], fmt.Sprintf("and %d more", len(out)-limit))
	}
	return strings.Join(out, "\n")
}

func formatItem(item store.Item) string {
	if item == nil {
		return "absent"
	}
	text, err := json.Marshal(item)
	if err != nil {
		return err.Error()
	}
	return string(text)
}
