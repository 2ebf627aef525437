/// The memory that all databases of a process may have together, and what they have.
package final class StoreQuota: @unchecked Sendable {  // tidy:allow belongs to its lane
    package let bytesMax: Int
    package private(set) var usedBytes = 0

    package init(bytesMax: Int) { self.bytesMax = bytesMax }

    var isExceeded: Bool { usedBytes > bytesMax }

    func count(_ bytes: Int) { usedBytes += bytes }
}
