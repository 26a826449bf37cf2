//! Reads a machine from a text of any form that this crate knows.

use thiserror::Error;

use crate::{CaptureError, Machine, SysTree, XmlError, read_lstopo_xml, read_nccl_xml, read_tree};

/// Reads a machine from lstopo XML, NCCL XML or a capture of sysfs, whichever the text is.
///
/// # Errors
/// Those of the reader that the text is for.
pub fn read_machine(text: &str) -> Result<Machine, ReadMachineError> {
    if !text.trim_start().starts_with('<') {
        return Ok(read_tree(&SysTree::from_capture(text)?));
    }
    match read_lstopo_xml(text) {
        Err(XmlError::WrongRoot { found, .. }) if found == "system" => Ok(read_nccl_xml(text)?),
        Err(XmlError::WrongRoot { found, .. }) => {
            Err(XmlError::WrongRoot { found, expected: "topology> or <system" }.into())
        }
        other => Ok(other?),
    }
}

/// Why a text is no machine.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ReadMachineError {
    /// It begins like XML.
    #[error(transparent)]
    Xml(#[from] XmlError),
    /// It does not.
    #[error("the text is neither XML nor a capture of sysfs")]
    Capture(#[from] CaptureError),
}
