package operation_test

import (
	"context"
	"encoding/json"
	"reflect"
	"testing"
	"testing/synctest"

	"github.com/gatewright/gatewright/shared/core/operation"
)

// TestDataKeepsUnknownFields runs the first step of an operation with a newer release, and
// the second step with an older release, which knows fewer fields of the operation's data. The
// other fields must remain, except in the entries of lists and in a value that the step replaces.
func TestDataKeepsUnknownFields(t *testing.T) {
	type place struct {
		File string `json:"file"`
	}
	type embedded struct {
		Kept string `json:"kept,omitempty"`
	}
	type older struct {
		embedded
		Count   int        `json:"count"`
		Cleared string     `json:"cleared,omitempty"`
		At      place      `json:"at"`
		Ptr     *place     `json:"ptr,omitempty"`
		List    []place    `json:"list,omitempty"`
		Raw     any        `json:"raw,omitempty"`
		Own     customJSON `json:"own"`
	}
	synctest.Test(t, func(t *testing.T) {
		newer := func(_ context.Context, s operation.Step) (operation.Result, error) {
			return operation.Result{
				Data: json.RawMessage(
					`{"count":1,"cleared":"x","kept":"k","later":{"a":[1,2,9007199254740993]},"at":{"file":"f","line":7},` +
						`"ptr":{"file":"p","line":8},"list":[{"file":"l","line":9}],"raw":{"a":1},"own":"1"}`),
			}, nil
		}
		second := func(_ context.Context, s operation.Step) (operation.Result, error) {
			var d older
			if err := s.Data(&d); err != nil {
				return operation.Result{}, err
			}
			d.Count, d.Cleared, d.At.File, d.Raw = d.Count+1, "", "g", map[string]int{"b": 2}
			return operation.Result{Data: &d}, nil
		}
		fx := newFixture(t, operation.Definition{Kind: "two", First: "one", States: map[string]operation.State{
			"one": {Task: newer, Next: "two"}, "two": {Task: second, Next: operation.Succeed},
		}})
		fx.begin("a", "two")
		var got, want map[string]any
		if err := fx.run("a").DecodeData(&got); err != nil {
			t.Fatalf("DecodeData() after both steps = %v, want success", err)
		}
		// Unknown fields in the entries of a list are lost, because entries cannot be identified.
		if err := json.Unmarshal(
			[]byte(`{"count":2,"kept":"k","later":{"a":[1,2,9007199254740993]},"at":{"file":"g","line":7},`+
				`"ptr":{"file":"p","line":8},"list":[{"file":"l"}],"raw":{"b":2},"own":"1!"}`), &want); err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("DecodeData() after both steps =\n%v, want\n%v", got, want)
		}
	})
}

// customJSON has its own MarshalJSON.
type customJSON struct{ text string }

func (j customJSON) MarshalJSON() ([]byte, error)     { return json.Marshal(j.text + "!") }
func (j *customJSON) UnmarshalJSON(data []byte) error { return json.Unmarshal(data, &j.text) }
