package import Bytes

/// Frees segments that other threads may read without a lock, once no thread can read them.
///
/// Reactors read tables ahead of taking a lock, to prefetch. So a replaced segment is kept until
/// every reactor has ended the turn it was in when the segment was replaced.
package final class Reclaimer: Sendable {
    private struct Retired {
        let address: UInt
        let turns: [UInt64]
    }

    private let quiescence: Quiescence
    private let retired = Guarded<[Retired]>([])

    package init(quiescence: Quiescence) {
        self.quiescence = quiescence
    }

    deinit {
        // Tables retain their reclaimer, so no reader is left.
        for entry in retired.withLock({ $0 }) { free(entry.address) }
    }

    /// Frees memory of `Memory.allocate` or `allocateLines`, to which no root or directory points
    /// any more, after all present turns have ended.
    func retire(_ base: UnsafeMutableRawPointer) {
        let entry = Retired(address: UInt(bitPattern: base), turns: quiescence.snapshot())
        let ready = retired.withLock { list in
            list.append(entry)
            return takeReady(&list)
        }
        for address in ready { free(address) }
    }

    /// Frees retired memory that no turn can read any more; called periodically.
    package func collect() {
        let ready = retired.withLock { takeReady(&$0) }
        for address in ready { free(address) }
    }

    private func takeReady(_ list: inout [Retired]) -> [UInt] {
        var ready: [UInt] = []
        list.removeAll { entry in
            guard quiescence.isPast(entry.turns) else { return false }
            ready.append(entry.address)
            return true
        }
        return ready
    }

    private func free(_ address: UInt) {
        guard let base = UnsafeMutableRawPointer(bitPattern: address) else { return }
        Memory.free(base)
    }
}
