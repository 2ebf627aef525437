/// The only doors through which the world enters: one value, passed down from `main`.
///
/// On Linux the doors lead to clocks, sockets, files and threads; in the simulator to virtual time,
/// a packet simulator, a simulated disk and one seeded run queue. Nothing below the facades knows
/// which.
package struct Environment: Sendable {
    package let time: any TimeSource
    package let entropy: any Entropy
    package let network: any Network
    package let disk: any Disk
    package let lanes: any LaneFactory
    package let trace: any Trace

    package init(
        time: any TimeSource,
        entropy: any Entropy,
        network: any Network,
        disk: any Disk,
        lanes: any LaneFactory,
        trace: any Trace
    ) {
        self.time = time
        self.entropy = entropy
        self.network = network
        self.disk = disk
        self.lanes = lanes
        self.trace = trace
    }
}

/// What time it is.
package protocol TimeSource: Sendable {
    /// Nanoseconds that never go back and count sleep too (`CLOCK_BOOTTIME`): for durations.
    func monotonicNanoseconds() -> UInt64
    /// Nanoseconds since 1970, as the operator's clock has it; may jump: for expiry and CAS.
    func wallNanoseconds() -> UInt64
}

/// The dice.
package protocol Entropy: Sendable {
    /// 64 bits nobody can foresee.
    func next() -> UInt64
}

extension Entropy {
    /// `count` bytes nobody can foresee.
    package func bytes(_ count: Int) -> [UInt8] {
        var bytes: [UInt8] = []
        bytes.reserveCapacity(count + 8)
        while bytes.count < count {
            withUnsafeBytes(of: next()) { bytes.append(contentsOf: $0) }
        }
        bytes.removeLast(bytes.count - count)
        return bytes
    }

    /// `count` bytes nobody can foresee, as lowercase hexadecimal digits.
    package func hex(_ count: Int) -> String {
        let digits = Array("0123456789abcdef".unicodeScalars)
        var text = ""
        for byte in bytes(count) {
            text.unicodeScalars.append(digits[Int(byte >> 4)])
            text.unicodeScalars.append(digits[Int(byte & 15)])
        }
        return text
    }
}
