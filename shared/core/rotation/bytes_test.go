package rotation_test

import "reflect"

// bytesOf returns the bytes of a binary attribute. It uses reflection, because this package does not import the AWS
// SDK, which declares the type of the attribute.
func bytesOf(attribute any) ([]byte, bool) {
	v := reflect.Indirect(reflect.ValueOf(attribute))
	if v.Kind() != reflect.Struct {
		return nil, false
	}
	raw, ok := v.FieldByName("Value").Interface().([]byte)
	return raw, ok
}
