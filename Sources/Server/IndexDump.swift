package import Bytes
internal import Persistence
package import Seams
internal import ViewService

/// A view's index file for operators, tools and tests: as lines of JSON, and checked.
///
/// Reads only the file, even while a server has it open; changes that are not committed yet are
/// missing.
package struct IndexDump {
    private let disk: any Disk

    package init(disk: any Disk) {
        self.disk = disk
    }

    /// Writes a line that describes the index, then a line for each row in the order of keys.
    ///
    /// - Parameters:
    ///   - path: The file.
    ///   - write: Called with each line, including its newline.
    /// - Throws: `NodeError` if it is not an index file, or a part of it cannot be read.
    package func lines(of path: String, write: (ByteView) -> Void) throws(NodeError) {
        do throws(StorageError) {
            try IndexInspection(path: path, disk: disk).lines(write)
        } catch {
            throw NodeError(error.description)
        }
    }

    /// Checks everything in the file that can be verified without documents and functions.
    ///
    /// - Parameters:
    ///   - path: The file.
    ///   - print: Called with a sentence for each violation, then with one that sums up.
    /// - Throws: `NodeError` if it is not an index file that can be read.
    /// - Returns: Whether there are no violations.
    package func check(
        _ path: String,
        print: @escaping @Sendable (String) -> Void
    ) throws(NodeError) -> Bool {
        let found = Guarded(0)
        do throws(StorageError) {
            let extent = try IndexInspection(path: path, disk: disk).check { violation in
                found.withLock { $0 += 1 }
                print(violation)
            }
            let count = found.withLock { $0 }
            print(
                "\(count) violations in \(extent.rows) rows of \(extent.documents) documents, "
                    + "\(extent.nodes) nodes and \(extent.partials) stored results"
            )
            return count == 0
        } catch {
            throw NodeError(error.description)
        }
    }
}
