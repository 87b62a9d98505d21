package stream

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/aws/aws-lambda-go/events"
)

// Filter is an event filter pattern of AWS Lambda: it selects the records of the stream for which a function is
// called. A call with a record that the function does not need costs more than the commit that wrote the record.
//
// A Filter supports exact texts, prefix and exists. Other conditions match every record, because
// functions themselves skip the records that they do not need. A nil Filter matches all records.
type Filter map[string]any

// ParseFilter parses a filter pattern, which is a JSON object. For "" it returns the filter that matches all records.
func ParseFilter(pattern string) (Filter, error) {
	if pattern == "" {
		return nil, nil
	}
	var f Filter
	if err := json.Unmarshal([]byte(pattern), &f); err != nil {
		return nil, fmt.Errorf("read a filter pattern: %w", err)
	}
	return f, nil
}

// Matches reports whether a record matches the filter.
func (f Filter) Matches(r events.DynamoDBEventRecord) bool { return matches(map[string]any(f), r) }

// matches reports whether a part of a pattern matches the part of a
// record at the same place. part is nil if the record has no such part.
func matches(pattern, part any) bool {
	switch p := pattern.(type) {
	case map[string]any:
		for name, sub := range p {
			if !matches(sub, child(part, name)) {
				return false
			}
		}
	case []any:
		return slices.ContainsFunc(p, func(c any) bool { return satisfied(c, part) })
	}
	return true
}

// satisfied reports whether a condition holds for a value.
func satisfied(condition, part any) bool {
	text, _ := part.(string)
	switch c := condition.(type) {
	case string:
		return part != nil && text == c
	case map[string]any:
		if prefix, ok := c["prefix"].(string); ok {
			return part != nil && strings.HasPrefix(text, prefix)
		}
		if exists, ok := c["exists"].(bool); ok {
			return exists == (part != nil)
		}
	}
	return true
}

// child returns the member of part that has this name in the JSON of a record.
// It returns nil if there is no such member.
func child(part any, name string) any {
	switch part := part.(type) {
	case events.DynamoDBEventRecord:
		switch name {
		case "eventName":
			return part.EventName
		case "dynamodb":
			return part.Change
		}
	case events.DynamoDBStreamRecord:
		switch name {
		case "Keys":
			return part.Keys
		case "OldImage":
			return part.OldImage
		case "NewImage":
			return part.NewImage
		}
	case map[string]events.DynamoDBAttributeValue:
		if v, ok := part[name]; ok {
			return v
		}
	case events.DynamoDBAttributeValue:
		switch {
		case name == "S" && part.DataType() == events.DataTypeString:
			return part.String()
		case name == "N" && part.DataType() == events.DataTypeNumber:
			return part.Number()
		case name == "M" && part.DataType() == events.DataTypeMap:
			return part.Map()
		}
	}
	return nil
}
