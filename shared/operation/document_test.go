package operation_test

import (
	"context"
	"encoding/json"
	"reflect"
	"testing"
	"testing/synctest"

	"github.com/gatewright/gatewright/shared/operation"
)

// TestAStepKeepsWhatANewerReleaseHasFoundOut has a newer release carry out the first step of an operation and an
// older one the second, which knows less of what the steps pass on.
func TestAStepKeepsWhatANewerReleaseHasFoundOut(t *testing.T) {
	type place struct {
		File string `json:"file"`
	}
	type embedded struct {
		Kept string `json:"kept,omitempty"`
	}
	type older struct {
		embedded
		Count   int      `json:"count"`
		Cleared string   `json:"cleared,omitempty"`
		At      place    `json:"at"`
		Ptr     *place   `json:"ptr,omitempty"`
		List    []place  `json:"list,omitempty"`
		Raw     any      `json:"raw,omitempty"`
		Own     selfMade `json:"own"`
	}
	synctest.Test(t, func(t *testing.T) {
		newer := func(_ context.Context, s operation.Step) (operation.Result, error) {
			return operation.Result{Data: json.RawMessage(`{"count":1,"cleared":"x","kept":"k","later":{"a":[1,2,9007199254740993]},"at":{"file":"f","line":7},"ptr":{"file":"p","line":8},"list":[{"file":"l","line":9}],"raw":{"a":1},"own":"1"}`)}, nil
		}
		second := func(_ context.Context, s operation.Step) (operation.Result, error) {
			var d older
			if err := s.Data(&d); err != nil {
				return operation.Result{}, err
			}
			d.Count, d.Cleared, d.At.File, d.Raw = d.Count+1, "", "g", map[string]int{"b": 2}
			return operation.Result{Data: &d}, nil
		}
		w := newWorld(t, operation.Definition{Kind: "two", First: "one", States: map[string]operation.State{
			"one": {Task: newer, Next: "two"}, "two": {Task: second, Next: operation.Succeed},
		}})
		w.begin("a", "two")
		var got, want map[string]any
		if err := w.run("a").DecodeData(&got); err != nil {
			t.Fatal(err)
		}
		// The entries of a list are no longer the same: which of them is which, nobody knows.
		if err := json.Unmarshal([]byte(`{"count":2,"kept":"k","later":{"a":[1,2,9007199254740993]},"at":{"file":"g","line":7},"ptr":{"file":"p","line":8},"list":[{"file":"l"}],"raw":{"b":2},"own":"1!"}`), &want); err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("the data are\n%v, want\n%v", got, want)
		}
	})
}

// selfMade writes its own JSON.
type selfMade struct{ text string }

func (s selfMade) MarshalJSON() ([]byte, error)     { return json.Marshal(s.text + "!") }
func (s *selfMade) UnmarshalJSON(data []byte) error { return json.Unmarshal(data, &s.text) }
