import Bytes
import Foundation
import LinuxPlatform
import Server

/// `--dump`: documents on standard output, notes on omitted or unreadable data on standard error.
enum Dump {
    static func write(_ directory: String) throws {
        let dump = DataDump(disk: LinuxDisk())
        let report = { (text: String) in
            FileHandle.standardError.write(Data("divan-server: \(text)\n".utf8))
        }
        try dump.lines(
            of: directory,
            damage: report,
            note: report,
            write: { FileHandle.standardOutput.write(Data($0.bytes)) }
        )
    }
}
