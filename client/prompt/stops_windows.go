package prompt

// aroundStops does nothing: Windows stops no process that has a console.
func aroundStops(_, _ func()) func() { return func() {} }
