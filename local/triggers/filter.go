package triggers

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/aws/aws-lambda-go/events"
)

// filter is a pattern of AWS's event filters, as JSON has it: what a function does
// not want of the stream costs a call and its event otherwise, which is more than
// the commit that made it. A condition that is not known here lets records pass:
// functions pass over what they do not want by themselves.
type filter map[string]any

// filterOf reads a pattern, "" for the one that all records match.
func filterOf(pattern string) (filter, error) {
	if pattern == "" {
		return nil, nil
	}
	var f filter
	if err := json.Unmarshal([]byte(pattern), &f); err != nil {
		return nil, fmt.Errorf("read a filter pattern: %w", err)
	}
	return f, nil
}

// Pattern reads a pattern of AWS's event filters, "" for the one that all records meet.
func Pattern(pattern string) (meets func(events.DynamoDBEventRecord) bool, err error) {
	f, err := filterOf(pattern)
	return func(r events.DynamoDBEventRecord) bool { return matches(map[string]any(f), r) }, err
}

// of gives the records that match.
func (f filter) of(records []events.DynamoDBEventRecord) []events.DynamoDBEventRecord {
	return slices.DeleteFunc(records, func(r events.DynamoDBEventRecord) bool { return !matches(map[string]any(f), r) })
}

// matches compares a part of a pattern with the part of a record at the same
// place, which is nil where there is none.
func matches(pattern, at any) bool {
	switch p := pattern.(type) {
	case map[string]any:
		for name, below := range p {
			if !matches(below, child(at, name)) {
				return false
			}
		}
	case []any:
		return slices.ContainsFunc(p, func(c any) bool { return meets(c, at) })
	}
	return true
}

// meets reports whether a value meets a condition.
func meets(condition, at any) bool {
	text, _ := at.(string)
	switch c := condition.(type) {
	case string:
		return at != nil && text == c
	case map[string]any:
		if prefix, ok := c["prefix"].(string); ok {
			return at != nil && strings.HasPrefix(text, prefix)
		}
		if exists, ok := c["exists"].(bool); ok {
			return exists == (at != nil)
		}
	}
	return true
}

// child gives what has a name in a part of a record, in the form of its JSON.
func child(at any, name string) any {
	switch at := at.(type) {
	case events.DynamoDBEventRecord:
		switch name {
		case "eventName":
			return at.EventName
		case "dynamodb":
			return at.Change
		}
	case events.DynamoDBStreamRecord:
		switch name {
		case "Keys":
			return at.Keys
		case "OldImage":
			return at.OldImage
		case "NewImage":
			return at.NewImage
		}
	case map[string]events.DynamoDBAttributeValue:
		if v, ok := at[name]; ok {
			return v
		}
	case events.DynamoDBAttributeValue:
		switch {
		case name == "S" && at.DataType() == events.DataTypeString:
			return at.String()
		case name == "N" && at.DataType() == events.DataTypeNumber:
			return at.Number()
		case name == "M" && at.DataType() == events.DataTypeMap:
			return at.Map()
		}
	}
	return nil
}
