package prompt

// onContinue does nothing: Windows does not stop processes that have a console.
func onContinue(func()) func() { return func() {} }
