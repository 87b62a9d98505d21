package celexpr

import (
	"net/http"
	"reflect"
	"testing"

	"github.com/gatewright/gatewright/shared/dataplane/gateway/pipeline"
)

// TestValuesAreReadOnce checks that a loop that uses the body does not decode it for each item.
func TestValuesAreReadOnce(t *testing.T) {
	t.Parallel()
	x := &pipeline.Exchange{Header: http.Header{"Content-Type": {"application/json"}}}
	a := activation{input: Input{Exchange: x, Body: []byte(`{"a": [1, 2.5, "x", null]}`)}}
	first, _ := a.ResolveName(requestBody)
	second, ok := a.ResolveName(requestBody)
	want := map[string]any{"a": []any{int64(1), 2.5, "x", nil}}
	if !ok || !reflect.DeepEqual(second, want) {
		t.Errorf("ResolveName(%s) = %v, %t, want %v", requestBody, second, ok, want)
	}
	if reflect.ValueOf(first).Pointer() != reflect.ValueOf(second).Pointer() {
		t.Error("ResolveName() twice returns two maps, want the same")
	}
}
