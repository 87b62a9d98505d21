package lambdahost

import "errors"

// supported is false: Windows cannot freeze a process between two calls.
const supported = false

func freeze(int) error { return errors.ErrUnsupported }

func thaw(int) error { return errors.ErrUnsupported }

func terminate(int) error { return errors.ErrUnsupported }
