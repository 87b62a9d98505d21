package openapi

import "testing"

// TestNestedValuesOfQueries checks lists and objects within lists and objects, whose form OpenAPI does not define: items
// with numbers in brackets in the style deepObject, and JSON in other styles. MCP tools send both.
func TestNestedValuesOfQueries(t *testing.T) {
	t.Parallel()
	q := compile(t, "", `{"parameters":[
		{"in":"query","name":"filter","style":"deepObject","explode":true,"schema":{"type":"object","properties":{
			"ids":{"type":"array","items":{"type":"integer"}},"free":{},
			"rows":{"type":"array","items":{"type":"array","items":{"type":"integer"}}},
			"pairs":{"type":"array","items":{"type":"object","required":["a"],"properties":{"a":{"type":"boolean"}}}}}}},
		{"in":"query","name":"list","style":"form","explode":true,"schema":{"type":"array","items":{
			"type":"object","required":["a"],"properties":{"a":{"type":"integer"}}}}},
		{"in":"query","name":"expand","style":"deepObject","explode":true,"schema":{"type":"array","maxItems":2,
			"items":{"type":"integer"}}},
		{"in":"query","name":"codes","style":"form","explode":true,"schema":{"type":"array","items":{
			"type":["object","string"],"maxLength":3}}}]}`)
	for _, tt := range []struct{ query, want string }{
		{"filter[ids][0]=1&filter[ids][1]=2", ""},
		{"filter[ids][0]=1&filter[ids][1]=x", "query /filter/ids/1: must be an integer, not a string"},
		{"filter[ids][1]=1&filter[ids][2]=2", "query /filter/ids: must be an array, not an object"},
		{"filter[ids][]=1&filter[ids][]=2", ""},
		{"filter[ids][0]=1&filter[ids][0]=2", "query /filter/ids/0: must be sent once only"},
		{"filter[pairs][0][a]=true", ""},
		{"filter[pairs][0][a]=true&filter[pairs][0][a]=false", "query /filter/pairs/0/a: must be sent once only"},
		{"filter[pairs]=1&filter[pairs][0][a]=true", "query /filter/pairs/0/a: must be sent once only"},
		{"filter[pairs][0][a]=true&filter[pairs]=1", "query /filter/pairs: must be sent once only"},
		{"filter[free]=1&filter[free]=2", ""},
		{"filter[rows][0]=1&filter[rows][0]=2", "query /filter/rows/0: must be sent once only"},
		{"codes=%7B%22a%22:1%7D", "query /codes/0: must have at most 3 characters"},
		{"filter[pairs][0][a]=1", "query /filter/pairs/0/a: must be a boolean, not a string"},
		{"list=%7B%22a%22:1%7D&list=%7B%22a%22:2%7D", ""},
		{"list=%7B%22a%22:%22x%22%7D", "query /list/0/a: must be an integer, not a string"},
		{"list=%7B%22a%22", "query /list/0: must be an object, not a string"},
		{"list=a", "query /list/0: must be an object, not a string"},
		{"expand[]=1&expand%5B%5D=2", ""},
		{"expand[]=1", ""},
		{"expand[0]=1&expand[1]=2", ""},
		{"expand[]=1&expand[]=x", "query /expand/1: must be an integer, not a string"},
		{"expand[]=1&expand[]=2&expand[]=3", "query /expand: must have at most 2 items"},
		{"expand[]=%FF", "query /expand: must have valid escapes of UTF-8, such as %C3%A9"},
		{"expand[]=1&expand[1]=2", "query /expand/: must have the names of properties in brackets, " +
			"and nothing between or after them"},
		{"expand=1", "query /expand: must have empty brackets for each item: expand[]"},
		{"expand[0]=1&expand[0]=2", "query /expand/0: must be sent once only"},
	} {
		var r Report
		q.CheckQuery(&r, tt.query)
		if got := r.text(); got != tt.want {
			t.Errorf("CheckQuery(%q) = %q, want %q", tt.query, got, tt.want)
		}
	}
}
