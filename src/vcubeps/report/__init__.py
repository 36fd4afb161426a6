"""The paper's evaluation as one page: its figures and statements as data, drawn and compared with ours."""
