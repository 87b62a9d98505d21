package metering

// MaxCustomers is how many customers a Directory remembers.
const MaxCustomers = maxCustomers

// Considered is how many subscriptions of a customer are looked at.
const Considered = considered

// Remembered is how many it does.
func (d *Directory) Remembered() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.customers)
}
