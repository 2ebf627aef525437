internal import Foundation

/// Processor time and memory of this process, from `/proc/self/stat`.
package struct ProcessReading {
    /// In user and kernel mode, since the start of the process.
    package let cpuSeconds: Double
    package let residentBytes: UInt64

    /// Nil if the kernel does not show the process.
    init?() {
        guard let bytes = FileManager.default.contents(atPath: "/proc/self/stat") else {
            return nil
        }
        self.init(
            stat: String(decoding: bytes, as: UTF8.self),
            ticksPerSecond: Double(sysconf(Int32(_SC_CLK_TCK))),
            pageBytes: UInt64(getpagesize())
        )
    }

    /// Nil if the text is malformed; the second field is the program's name, which may have any characters.
    package init?(stat: String, ticksPerSecond: Double, pageBytes: UInt64) {
        guard let end = stat.lastIndex(of: ")") else { return nil }
        // The first of these is field 3.
        let fields = stat[stat.index(after: end)...].split(separator: " ")
        guard fields.count > 21, let user = Double(fields[11]), let system = Double(fields[12]),
            let pages = UInt64(fields[21])
        else { return nil }
        cpuSeconds = (user + system) / ticksPerSecond
        residentBytes = pages * pageBytes
    }
}
