package prompt

// whenContinued does nothing: Windows stops no process that has a console.
func whenContinued(func()) func() { return func() {} }
