package rotation_test

import "reflect"

// bytesOf returns the bytes of a binary attribute. It recognizes the attribute
// by its form, because only package store imports the SDK with its type.
func bytesOf(attribute any) ([]byte, bool) {
	v := reflect.Indirect(reflect.ValueOf(attribute))
	if v.Kind() != reflect.Struct {
		return nil, false
	}
	raw, ok := v.FieldByName("Value").Interface().([]byte)
	return raw, ok
}
