package rotation_test

import "reflect"

// bytesOf gives the bytes of an attribute of bytes. It is known by its form: the SDK that has its type stays in store.
func bytesOf(attribute any) ([]byte, bool) {
	v := reflect.Indirect(reflect.ValueOf(attribute))
	if v.Kind() != reflect.Struct {
		return nil, false
	}
	raw, ok := v.FieldByName("Value").Interface().([]byte)
	return raw, ok
}
