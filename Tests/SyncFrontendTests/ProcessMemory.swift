import Glibc

/// The memory of the test's process, in which the server runs too.
enum ProcessMemory {
    /// - Throws: `RawClient.Failure` if the system does not say.
    static func residentBytes() throws -> Int {
        guard let file = fopen("/proc/self/statm", "r") else {
            throw RawClient.Failure(what: "no /proc/self/statm")
        }
        defer { fclose(file) }
        var buffer = [CChar](repeating: 0, count: 256)
        guard fgets(&buffer, 255, file) != nil else {
            throw RawClient.Failure(what: "an empty /proc/self/statm")
        }
        let bytes = buffer.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }
        let words = String(decoding: bytes, as: UTF8.self).split(separator: " ")
        return (Int(words[1]) ?? 0) * Int(getpagesize())
    }
}
