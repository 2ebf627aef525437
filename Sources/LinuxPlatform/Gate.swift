/// A latch: `wait` blocks until `pass` was called `count` times.
final class Gate: @unchecked Sendable {  // tidy:allow its monitor is the proof
    private let monitor = Monitor()
    private var remaining: Int

    init(count: Int) {
        remaining = count
    }

    func pass() {
        monitor.acquire()
        remaining -= 1
        if remaining == 0 { monitor.signal() }
        monitor.release()
    }

    func wait() {
        monitor.acquire()
        while remaining > 0 { monitor.wait(until: nil) }
        monitor.release()
    }
}
